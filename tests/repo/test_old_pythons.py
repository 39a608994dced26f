"""The rooms for training containers compile and import on the oldest Python they promise."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.services.plugin import unavailable
from tests.services.process import ServiceMissingError
from tests.services.session import ROOT

IMPORT_ALL = """
import importlib, pathlib, sys
source = pathlib.Path(sys.argv[1])
names = ["tuneplane.contract.words", "tuneplane.contract.names"]
for room in ("runner", "report", "adapters"):
    for path in sorted((source / "tuneplane" / room).rglob("*.py")):
        if path.name != "__main__.py" and "integrations" not in path.parts:
            parts = path.relative_to(source).with_suffix("").parts
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
sys.path.insert(0, str(source))
for name in names:
    importlib.import_module(name)
foreign = [n for n in sys.modules if n.partition(".")[0] in ("pydantic", "yaml", "click", "rich", "httpx2")]
assert not foreign, foreign
print(len(names), "modules imported")
"""
SOURCE = ROOT / "packages/tuneplane/src"


@pytest.fixture(scope="module", params=["3.9", "3.11", "3.12"])
def old_python(request: pytest.FixtureRequest) -> str:
    command = [str(ROOT / "scripts/find-python"), request.param]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    if result.returncode:
        unavailable(ServiceMissingError(result.stderr.strip()))
    return result.stdout.strip()


def run(python: str, code: str) -> str:
    result = subprocess.run(
        [python, "-I", "-c", code, str(SOURCE)],
        check=False, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_rooms_for_containers_import_without_anything_installed(old_python: str) -> None:
    assert "modules imported" in run(old_python, IMPORT_ALL)


def test_every_module_of_these_rooms_compiles(old_python: str) -> None:
    code = (
        "import pathlib, sys\ncount = 0\n"
        "for room in ('runner', 'report', 'adapters'):\n"
        "    for path in (pathlib.Path(sys.argv[1]) / 'tuneplane' / room).rglob('*.py'):\n"
        "        compile(path.read_text(encoding='utf-8'), str(path), 'exec')\n        count += 1\n"
        "print(count)"
    )
    assert int(run(old_python, code)) >= 3
