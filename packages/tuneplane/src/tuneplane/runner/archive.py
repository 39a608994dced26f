"""`runner.pex`: the runner, the reporter and the adapters in one file that any CPython from 3.9 on executes.

A zip with a `__main__.py` (PEP 441) rather than a pex: the decision and its numbers are in
docs/development/decisions/0001-runner-archive.md. The same sources give the same bytes on every machine: sorted names, fixed
times and modes, nothing compressed (what deflate gives depends on the zlib at hand).
"""

from __future__ import annotations

import importlib
import io
import zipfile
from importlib import resources
from typing import Dict

PACKAGES = (
    "tuneplane",
    "tuneplane.adapters",
    "tuneplane.contract",
    "tuneplane.report",
    "tuneplane.report.integrations",
    "tuneplane.runner",
    "tuneplane.runner.tails",
)
# Of these only what uses the standard library alone.
_ONLY = {"tuneplane": ("__init__.py",), "tuneplane.contract": ("__init__.py", "names.py", "words.py")}
_MAIN = b"""import os
import sys

if sys.version_info < (3, 9):
    sys.stderr.write("tuneplane: the runner needs Python 3.9 or newer, this is %d.%d\\n" % sys.version_info[:2])
    sys.exit(78)

from tuneplane.runner.main import main

# Not sys.exit: threads that wait for the network must not be waited for, and everything is on disk by now.
code = main()
sys.stderr.flush()
os._exit(code)
"""


def build_runner() -> bytes:
    """The archive's bytes; their SHA-256 goes into the capsule."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(archive_files().items()):
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o100644 << 16
            entry.create_system = 3  # Unix, wherever it is built
            archive.writestr(entry, content)
    return buffer.getvalue()


def archive_files() -> Dict[str, bytes]:
    """Name in the archive -> content."""
    files = {"__main__.py": _MAIN}
    for package in PACKAGES:
        wanted = _ONLY.get(package)
        for entry in resources.files(importlib.import_module(package)).iterdir():
            if entry.name.endswith(".py") and (wanted is None or entry.name in wanted):
                files[f"{package.replace('.', '/')}/{entry.name}"] = entry.read_bytes()
    return files
