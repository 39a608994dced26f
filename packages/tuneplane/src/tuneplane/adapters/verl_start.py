"""Goes into the job with `hydra_overrides.py`: name the data files to verl, then become the program that was given.

    python verl_start.py [files|parquet KEY PATH SPLIT]... [own FILE] -- PROGRAM ARGUMENT...

verl takes files, not folders (`verl/utils/dataset/{rl,multiturn_sft}_dataset.py` of 0.9.1), so the files of a folder are listed here, where they
are. `parquet`: its SFT trainer reads nothing else, so JSON lines are rewritten below the folder of this script. `own`: when the experiment has
this file, it runs in place of the module. Standard library only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Dict, List

from tuneplane.adapters.hydra_overrides import overrides

_ENDINGS = (".parquet", ".jsonl", ".json")
# Run by the image's Python, which has verl's pyarrow.
_WRITE_PARQUET = """
import json, sys
import pyarrow
from pyarrow import parquet
parquet.write_table(pyarrow.table(json.load(sys.stdin)), sys.argv[1])
"""
_HERE = os.path.dirname(os.path.abspath(__file__))


class DataError(Exception):
    """One sentence for the log."""


def completed(arguments: List[str]) -> List[str]:
    """The program with what was found out for it."""
    at = arguments.index("--")
    steps, program = arguments[:at], arguments[at + 1 :]
    added: List[str] = []
    while steps:
        if steps[0] == "own":
            if os.path.isfile(steps[1]):
                program = own_program(program, steps[1])
            steps = steps[2:]
            continue
        kind, key, path, split = steps[:4]
        found = data_files(path, split)
        if kind == "parquet":
            found = [parquet_of(name, f"{key}-{number}") for number, name in enumerate(found)]
        added += overrides({key: found}, literal=True)
        steps = steps[4:]
    return [*program, *added]


def own_program(program: List[str], file: str) -> List[str]:
    """`python -m module …` with the file in the module's place."""
    at = program.index("-m")
    return [*program[:at], file, *program[at + 2 :]]


def data_files(path: str, split: str = "") -> List[str]:
    """The file, or those of a folder that verl reads, in order; with a split those whose name or folder begins so."""
    if os.path.isfile(path):
        return [path]
    found = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(path)
        for name in names
        if name.endswith(_ENDINGS) and not name.startswith(".")
    ]
    kept = [name for name in found if _belongs(os.path.relpath(name, path), split)]
    if not kept:
        wanted = f"files of the split {split!r} ending in" if split and found else "files ending in"
        raise DataError(f"verl finds no data: {path} has no {wanted} {', '.join(_ENDINGS)}")
    return sorted(kept)


def _belongs(relative: str, split: str) -> bool:
    return not split or any(part.startswith(split) for part in relative.split(os.sep))


def parquet_of(path: str, name: str) -> str:
    """The file itself, or its rows as Parquet; whole or not there."""
    if path.endswith(".parquet"):
        return path
    rows = read_rows(path)
    columns: Dict[str, List[Any]] = {key: [row.get(key) for row in rows] for row in rows for key in row}
    target = os.path.join(_HERE, f"{name}.parquet")
    program = [sys.executable, "-c", _WRITE_PARQUET, target + ".part"]
    done = subprocess.run(program, input=json.dumps(columns), stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise DataError(f"{path} cannot be rewritten as Parquet: {done.stderr.strip().splitlines()[-1:]}")
    os.replace(target + ".part", target)
    return target


def read_rows(path: str) -> List[Dict[str, Any]]:
    """Objects of JSON lines, or of one JSON list."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        rows = (
            json.loads(text)
            if text.lstrip().startswith("[")
            else [json.loads(line) for line in text.splitlines() if line.strip()]
        )
    except ValueError as error:
        raise DataError(f"{path} is no JSON: {error}") from None
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{path} holds no rows")
    return rows


if __name__ == "__main__":
    try:
        argv = completed(sys.argv[1:])
    except (DataError, OSError) as problem:
        sys.exit(f"verl_start.py: {problem}")
    os.execvp(argv[0], argv)  # noqa: S606 - its arguments are no shell's
