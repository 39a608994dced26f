"""The recorded schema is what the installed TRL says today, and TRL takes what the catalog calls its defaults and choices."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.services.session import ROOT

pytestmark = pytest.mark.timeout(300)
SCHEMA = ROOT / "packages/tuneplane/src/tuneplane/recipes/catalog/trl/schema-1.16.json"
SCRIPT = ROOT / "scripts/catalog_schema.py"


def check(runtime: Path, schema: Path) -> subprocess.CompletedProcess[str]:
    command = [runtime / "bin/python", SCRIPT, schema, "--check"]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def test_the_schema_is_current_and_every_bound_is_proved(training_runtime: Path) -> None:
    done = check(training_runtime, SCHEMA)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('"lr_scheduler_type": {', '"lr_schedule_type": {'),
        ('"default": 2e-05', '"default": 3e-05'),
        ('"inverse_sqrt",', '"inverse_square",'),
        ('"exclusive_max": 0.5', '"exclusive_max": 1'),
    ],
)
def test_a_difference_is_seen(training_runtime: Path, tmp_path: Path, right: str, wrong: str) -> None:
    text = SCHEMA.read_text(encoding="utf-8")
    assert right in text
    changed = tmp_path / "schema-1.16.json"
    changed.write_text(text.replace(right, wrong, 1), encoding="utf-8")
    done = check(training_runtime, changed)
    assert done.returncode == 1
    assert "is not what the installed TRL says" in done.stderr
