"""What every recorder does with what it recorded: write it, or with `--check` say where the files differ."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def paths_of(arguments: list[str]) -> tuple[list[Path], bool]:
    """The files named on the command line, and whether they are only to be checked."""
    return [Path(item) for item in arguments if item != "--check"], "--check" in arguments


def rendered(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def keep(wanted: Mapping[Path, str], source: str, *, check: bool) -> int:
    """Write each file that has not the text it should have; with `check` name them instead, and the exit code is 1.

    `source`: who says what the text is, "the installed verl".
    """
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if check:
            sys.stderr.write(f"{path} is not what {source} says; run this script without --check\n")
        else:
            path.write_text(wanted[path], encoding="utf-8")
    return int(check and bool(stale))
