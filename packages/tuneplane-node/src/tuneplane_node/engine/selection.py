"""Which runtime runs the jobs, and how to reach each one that ever did.

`auto` takes Docker, else Podman, else process mode. A container engine that was used once stays the choice: one that is
down for a minute must not turn the next job into an unguarded process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from tuneplane_node.engine.problems import NodeError
from tuneplane_node.engine.runtimes.base import Runtime
from tuneplane_node.engine.runtimes.process import ProcessRuntime
from tuneplane_node.engine.supervisor.records import read_record, write_record

RuntimeChoice = Literal["auto", "docker", "podman", "process"]
CONTAINER_ENGINES = ("docker", "podman")


@dataclass(frozen=True)
class RuntimeOptions:
    """How to reach and drive the runtimes; empty addresses mean the usual places. `pull_seconds` bounds one image pull."""

    choice: RuntimeChoice
    docker_host: str
    podman_host: str
    container_user: str
    docker_config: Path | None
    pull_seconds: float

    def __post_init__(self) -> None:
        if self.choice not in get_args(RuntimeChoice):
            form = "|".join(get_args(RuntimeChoice))
            raise NodeError("setting-invalid", setting="TUNEPLANE_RUNTIME", value=self.choice, form=form)
        parts = self.container_user.split(":")
        if self.container_user not in ("", "image") and not (
            len(parts) <= 2 and all(part.isdecimal() for part in parts)
        ):
            form = "image|<uid>:<gid>"
            raise NodeError("setting-invalid", setting="TUNEPLANE_CONTAINER_USER", value=self.container_user, form=form)


class Selection:
    """The runtimes of one engine, made when first needed."""

    def __init__(
        self, instance_id: str, state_root: Path, options: RuntimeOptions, host_env: Mapping[str, str]
    ) -> None:
        self._instance = instance_id
        self._state_root = state_root
        self._options = options
        self._host_env = host_env
        self._made: dict[str, Runtime] = {}
        self._chosen: str | None = None

    async def current(self) -> Runtime:
        """The runtime for the next launch; looks, and remembers nothing."""
        if self._options.choice != "auto":
            return self.named(self._options.choice)
        if self._chosen is None:
            self._chosen = self._remembered_engine() or await self._first_answering()
        return self.named(self._chosen)

    async def for_launch(self) -> Runtime:
        """As `current`, and written down before the first container exists."""
        runtime = await self.current()
        used = self._used_names()
        if runtime.name not in used:
            try:
                self._state_root.mkdir(parents=True, exist_ok=True)
                write_record(self._record, {"used": [*used, runtime.name]})
            except OSError as problem:
                raise NodeError("record-unusable", str(problem), path=self._state_root) from problem
        return runtime

    async def used(self) -> list[Runtime]:
        """Every runtime that may hold containers of ours."""
        current = await self.current()
        return [current, *(self.named(name) for name in self._used_names() if name != current.name)]

    def named(self, name: str) -> Runtime:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    async def close(self) -> None:
        for runtime in self._made.values():
            await runtime.close()
        self._made.clear()

    @property
    def _record(self) -> Path:
        return self._state_root / "runtimes.json"

    def _make(self, name: str) -> Runtime:
        if name == "process":
            return ProcessRuntime(self._state_root / "processes", self._instance, self._host_env)
        if name not in CONTAINER_ENGINES:
            raise NodeError("request-invalid", field="runtime", value=name[:80])
        from tuneplane_node.engine.runtimes.docker_api import DockerRuntime  # HTTP costs memory: only who needs it

        home = Path(self._host_env.get("DOCKER_CONFIG") or Path.home() / ".docker")
        return DockerRuntime(
            name,
            self._address(name),
            self._instance,
            self._state_root / "unseen" / name,
            self._state_root / "images" / f"{name}.json",
            user=self._options.container_user or None,
            docker_config=self._options.docker_config or home / "config.json",
            pull_seconds=self._options.pull_seconds,
        )

    def _address(self, name: str) -> str:
        """What was set, else what the engine's own tools would use, else the first usual socket that exists."""
        given = self._options.docker_host if name == "docker" else self._options.podman_host
        variable = "DOCKER_HOST" if name == "docker" else "CONTAINER_HOST"
        address = given or self._host_env.get(variable, "")
        if address:
            return address if "://" in address else f"unix://{address}"
        private = self._host_env.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
        places = {
            "docker": ["/var/run/docker.sock", f"{private}/docker.sock"],
            "podman": ["/run/podman/podman.sock", f"{private}/podman/podman.sock"],
        }[name]
        return f"unix://{next((place for place in places if Path(place).exists()), places[0])}"

    def _used_names(self) -> list[str]:
        try:
            record = read_record(self._record) or {}
        except (OSError, ValueError) as problem:
            raise NodeError("record-unusable", str(problem), path=self._record) from problem
        return [str(name) for name in record.get("used", ())]

    def _remembered_engine(self) -> str | None:
        return next((name for name in reversed(self._used_names()) if name in CONTAINER_ENGINES), None)

    async def _first_answering(self) -> str:
        for name in CONTAINER_ENGINES:
            if await self._answers(name):
                return name
        return "process"

    async def _answers(self, name: str) -> bool:
        try:
            if not _has_socket(self._address(name)):
                return False
            await self.named(name).gives_gpus()
        except (NodeError, OSError):
            return False
        return True


def _has_socket(address: str) -> bool:
    return Path(address.removeprefix("unix://")).is_socket()
