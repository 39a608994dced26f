"""Puts `tuneplane.report` where the trainer can import it, without anything of ours in the image."""

from __future__ import annotations

import importlib
import os
from importlib import resources
from typing import Iterator, Tuple

# What `tuneplane.report` needs, and nothing else: the trainer must not see the runner.
PACKAGES = ("tuneplane", "tuneplane.contract", "tuneplane.report", "tuneplane.report.integrations")
_ONLY = {"tuneplane": ("__init__.py",), "tuneplane.contract": ("__init__.py", "words.py", "names.py")}


def write_library(directory: str) -> None:
    """Write the modules below `directory`. Real files rather than a zip: tracebacks, `inspect` and forks work as usual."""
    for name, source in library_files():
        path = os.path.join(directory, *name.split("/"))
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        with open(path, "wb") as file:
            file.write(source)


def library_files() -> Iterator[Tuple[str, bytes]]:
    """Relative path and content of each module, from the running archive or source tree."""
    for package in PACKAGES:
        root = resources.files(importlib.import_module(package))
        for entry in sorted(root.iterdir(), key=lambda item: item.name):
            wanted = _ONLY.get(package)
            if entry.name.endswith(".py") and (wanted is None or entry.name in wanted):
                yield f"{package.replace('.', '/')}/{entry.name}", entry.read_bytes()
