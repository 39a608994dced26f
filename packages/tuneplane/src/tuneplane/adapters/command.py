"""What an adapter is told about the machine and what it answers. Standard library only, CPython 3.9 to 3.14."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Tuple

from tuneplane.contract import words


@dataclass(frozen=True)
class Machine:
    """One machine of the job, as the runner finds it.

    `rank` of `count` machines; `gpus_per_node` cards on each (0 = CPU pool); `main_ip` and `main_port` where rank 0 listens;
    `python` the interpreter of the training image; `work_dir` the job's temporary directory, absolute. The default of `work_dir`
    is for plans shown to people before there is a directory.
    """

    rank: int = 0
    count: int = 1
    gpus_per_node: int = 0
    main_ip: str = "127.0.0.1"
    main_port: int = 29500
    python: str = "python3"
    work_dir: str = "$" + words.ENV_WORK_DIR

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.count:
            raise ValueError(f"machine rank {self.rank} of {self.count}")
        if self.gpus_per_node < 0 or not 0 < self.main_port < 65536:
            raise ValueError("gpus_per_node or main_port out of range")


LOG_KINDS = ("jsonl", "tensorboard", "console", "ranks")
CONSOLE_FORMATS = ("dict", "verl", "key-value")


@dataclass(frozen=True)
class LogHint:
    """Where a framework leaves metrics when it does not use the reporter; the runner follows it (`runner/tails`).

    `jsonl`: `path` is a pattern below the out dir, of files with one object a line. `tensorboard`: `path` is the folder below the
    out dir in which event files are written. `console`: `format` is the shape of the lines that the trainer prints.
    `ranks`: `path` is the folder below the out dir in which torchrun writes the output of each rank (`--redirects`).
    """

    kind: str
    path: str = ""
    format: str = ""

    def __post_init__(self) -> None:
        if self.kind not in LOG_KINDS:
            raise ValueError(f"log hint of kind {self.kind!r}")
        if self.kind == "console" and self.format not in CONSOLE_FORMATS:
            raise ValueError(f"console lines of format {self.format!r}")
        if self.path.startswith("/") or ".." in self.path.split("/") or "\0" in self.path:
            raise ValueError(f"the path {self.path!r} leads out of the out dir")
        if self.kind == "jsonl" and not self.path:
            raise ValueError("a jsonl hint without a path")


@dataclass(frozen=True)
class Command:
    """What to start. `argv[0]` is found on PATH; `env` is added to the job's environment, under what the user set;
    `files` (path below `work_dir` -> text, UTF-8) are written before the start; `cwd_relative` is below `work_dir`."""

    argv: Tuple[str, ...]
    cwd_relative: str
    env: Dict[str, str] = field(default_factory=dict)
    files: Dict[str, str] = field(default_factory=dict)
    log_hints: Tuple[LogHint, ...] = ()


class AdapterError(Exception):
    """The capsule cannot be turned into a command. `code` is of the server's reason table, `detail` one English sentence for the
    outcome record: admission let something through that this runner does not know, so it is the platform's fault."""

    code = "runner-failed"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail
