"""Parse command lines with torchrun's and ms-swift's own parsers, for tests/catalog/ms_swift.

    $(scripts/framework-env ms-swift)/bin/python scripts/schemas/ms_swift_cli.py cases.jsonl

Each line of the file is `{"argv": [python, "-m", "torch.distributed.run", …], "whole": bool}`. For each a line is printed:
`{"launcher": {…}, "values": {…}, "rest": […]}` or `{"error": "…"}`. `whole` makes the arguments' class as well, which checks them against
each other and against the model (without CUDA that works for `swift.cli.sft` and `swift.cli.rlhf` only).
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from ms_swift_parsers import argument_classes, make_parser

ENTRIES = {
    "swift.cli.sft": "sft",
    "swift.cli.rlhf": "rlhf",
    "swift.cli._megatron.sft": "megatron-sft",
    "swift.cli._megatron.rlhf": "megatron-rlhf",
}


class _RefusedError(Exception):
    pass


def main(path: str) -> int:
    with contextlib.redirect_stdout(sys.stderr):  # ms-swift logs there too
        classes = argument_classes()
        parsers = {module: make_parser(classes[entry]) for module, entry in ENTRIES.items()}
        for parser in parsers.values():
            parser.error = _refuse
        lines = [
            json.dumps(_answer(json.loads(line), parsers, classes))
            for line in Path(path).read_text(encoding="utf-8").splitlines()
        ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _answer(case: dict[str, Any], parsers: dict[str, Any], classes: dict[str, Any]) -> dict[str, Any]:
    from torch.distributed.run import get_args_parser

    try:
        launcher = vars(get_args_parser().parse_args(case["argv"][3:]))
        module, words = launcher["training_script"], launcher.pop("training_script_args")
        values, rest = parsers[module].parse_known_args(words)
        if case.get("whole"):
            _make(classes[ENTRIES[module]], words)
    except (_RefusedError, ValueError, AssertionError, TypeError, OSError, SystemExit) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"launcher": launcher, "values": {name: _plain(value) for name, value in vars(values).items()}, "rest": rest}


def _make(cls: Any, words: list[str]) -> None:
    """As `swift/pipelines/base.py`, _parse_args, does."""
    from swift.utils import parse_args

    _, rest = parse_args(cls, words)
    if rest:
        raise ValueError(f"remaining_argv: {rest}")


def _refuse(message: str) -> None:
    raise _RefusedError(message)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | None) else getattr(value, "value", str(value))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
