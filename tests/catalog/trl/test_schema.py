"""The recorded schema is what the installed TRL says today, and TRL takes what the catalog calls its defaults and choices."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.services.session import ROOT

pytestmark = [pytest.mark.catalog, pytest.mark.timeout(600)]
SCHEMA = ROOT / "packages/tuneplane/src/tuneplane/recipes/catalog/trl/schema-1.16.json"
SCRIPT = ROOT / "scripts/schemas/record_trl.py"


DIFFERENCES = [
    ('"lr_scheduler_type": {', '"lr_schedule_type": {'),
    ('"default": 2e-05', '"default": 3e-05'),
    ('"inverse_sqrt",', '"inverse_square",'),
    ('"exclusive_max": 0.5', '"exclusive_max": 1'),
]


def test_the_schema_is_current_every_bound_is_proved_and_a_difference_is_seen(
    training_runtime: Path, tmp_path: Path
) -> None:
    text = SCHEMA.read_text(encoding="utf-8")
    changed = [tmp_path / f"schema-{number}.json" for number in range(len(DIFFERENCES))]
    for path, (right, wrong) in zip(changed, DIFFERENCES, strict=True):
        assert right in text
        path.write_text(text.replace(right, wrong, 1), encoding="utf-8")
    # Importing TRL takes longer than comparing, so once for all.
    command = [training_runtime / "bin/python", SCRIPT, SCHEMA, *changed, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr
    seen = re.findall(r"^(.+) is not what the installed TRL says", done.stderr, re.MULTILINE)
    assert seen == [str(path) for path in changed], done.stderr
