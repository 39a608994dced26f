"""OpenRLHF's own argument parsers, without its training: for scripts that run in an environment that has OpenRLHF (0.11).

The modules `openrlhf.cli.*` build their parser, parse and check inside `if __name__ == "__main__":`, and import deepspeed, Ray and vLLM above
it. So a module's source is read and the statements of that block alone are executed: those before `args = parser.parse_args()` give the parser;
all of them, with a `train` that only keeps its argument, give what the training would have been started with, after OpenRLHF's own checks.
What the block itself imports of OpenRLHF (`openrlhf.utils.config`, which needs the standard library only) is loaded from its file, because the
packages above it import everything else.

    python openrlhf_cli.py <cases>      a file of JSON lines {"module": "train_sft", "argv": [...]}; prints a line for each:
                                        {"values": {flag: value}} or {"error": text}
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import io
import json
import math
import os
import sys
import types
from datetime import datetime
from pathlib import Path
from typing import Any

LIGHT_MODULE = "openrlhf.utils.config"


def _package() -> Path:
    spec = importlib.util.find_spec("openrlhf")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("OpenRLHF is not installed here")
    return Path(next(iter(spec.submodule_search_locations)))


PACKAGE = _package()  # before empty modules of its names stand in for it


def main_block(module: str) -> list[ast.stmt]:
    """The statements below `if __name__ == "__main__":` of `openrlhf/cli/<module>.py`."""
    tree = ast.parse((PACKAGE / "cli" / f"{module}.py").read_text(encoding="utf-8"))
    for statement in tree.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'":
            return statement.body
    raise SystemExit(f"openrlhf.cli.{module} has no main block any more")


def parser_of(module: str) -> argparse.ArgumentParser:
    statements = main_block(module)
    ends = [number for number, statement in enumerate(statements) if _parses(statement)]
    if len(ends) != 1:
        raise SystemExit(f"openrlhf.cli.{module} parses its arguments {len(ends)} times")
    names = _names()
    _execute(statements[: ends[0]], names)
    return names["parser"]


def parse(module: str, argv: list[str]) -> dict[str, Any]:
    """Flag -> value as the training sees it, `actor.adam.lr` for `args.actor.adam.lr`. Raises what OpenRLHF raises; `SystemExit` of argparse."""
    kept: list[Any] = []
    _load_light_module()
    before, sys.argv = sys.argv, [f"{module}.py", *argv]
    try:
        _execute(main_block(module), {**_names(), "train": kept.append})
    finally:
        sys.argv = before
    return dict(_flat(kept[0]))


def _parses(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and ast.unparse(statement) == "args = parser.parse_args()"


def _names() -> dict[str, Any]:
    return {"argparse": argparse, "os": os, "datetime": datetime}


def _execute(statements: list[ast.stmt], names: dict[str, Any]) -> None:
    exec(compile(ast.Module(statements, type_ignores=[]), "<openrlhf>", "exec"), names)


def _load_light_module() -> None:
    if LIGHT_MODULE in sys.modules:
        return
    for name in ("openrlhf", "openrlhf.utils"):
        sys.modules[name] = types.ModuleType(name)
    spec = importlib.util.spec_from_file_location(LIGHT_MODULE, PACKAGE / "utils/config.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"{LIGHT_MODULE} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[LIGHT_MODULE] = module
    spec.loader.exec_module(module)


def _flat(value: types.SimpleNamespace, at: str = "") -> Any:
    for name, item in vars(value).items():
        if isinstance(item, types.SimpleNamespace):
            yield from _flat(item, f"{at}{name}.")
        else:
            yield f"{at}{name}", item


def _json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return [_json(item) for item in value] if isinstance(value, (list, tuple)) else value


# What its checks raise: assertions, and what goes wrong where it reads a value that it did not check.
_REFUSALS = (AssertionError, AttributeError, ImportError, LookupError, TypeError, ValueError)


def _answer(case: dict[str, Any]) -> dict[str, Any]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            values = parse(case["module"], case["argv"])
    except (*_REFUSALS, SystemExit) as error:  # what OpenRLHF says is the answer
        return {"error": f"{type(error).__name__}: {error} {said.getvalue()}".strip()}
    return {"values": {name: _json(value) for name, value in values.items()}}


if __name__ == "__main__":
    for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        sys.stdout.write(json.dumps(_answer(json.loads(line))) + "\n")
