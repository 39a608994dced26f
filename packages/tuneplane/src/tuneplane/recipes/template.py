"""The files of a recipe's template: read for digests, copied into experiments."""

from __future__ import annotations

from pathlib import Path

LEFT_OUT = {"__pycache__"}  # made by Python beside any script that is run, never part of a template


def read_template(directory: Path) -> dict[str, bytes]:
    """Relative POSIX path -> content, sorted. Raises `OSError` when the directory is not there or holds a symbolic link."""
    if not directory.is_dir():
        raise FileNotFoundError(2, "no such directory", str(directory))
    files = {}
    for path in sorted(directory.rglob("*")):
        relative = path.relative_to(directory)
        if LEFT_OUT.intersection(relative.parts) or path.suffix in (".pyc", ".pyo"):
            continue
        if path.is_symlink():
            raise OSError(40, "is a symbolic link", str(path))
        if path.is_file():
            files[relative.as_posix()] = path.read_bytes()
    return files
