"""The recorded schema is what the installed ms-swift says today."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services.session import ROOT
from tuneplane.adapters.ms_swift import NEVER_EMPTY
from tuneplane.recipes import index

pytestmark = [pytest.mark.catalog, pytest.mark.timeout(300)]
SCHEMA = index.CATALOG / "ms-swift/schema-4.6.json"
DIFFERENCES = [
    ('"lora_rank": {', '"lora_ranks": {'),
    ('"default": 32.0', '"default": 16.0'),
    ('"float16", "float32"]', '"float16"]'),
    ('"max": 0.5', '"max": 1'),
]


def test_the_schema_is_current_and_a_difference_is_seen(framework_env: Callable[[str], Path], tmp_path: Path) -> None:
    text = SCHEMA.read_text(encoding="utf-8")
    changed = [tmp_path / f"schema-{number}.json" for number in range(len(DIFFERENCES))]
    for path, (right, wrong) in zip(changed, DIFFERENCES, strict=True):
        assert right in text
        path.write_text(text.replace(right, wrong, 1), encoding="utf-8")
    script = ROOT / "scripts/schemas/record_ms_swift.py"
    command = [framework_env("ms-swift") / "bin/python", script, SCHEMA, *changed, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 1, done.stderr[-3000:]
    seen = re.findall(r"^(.+) is not what the installed ms-swift says", done.stderr, re.MULTILINE)
    assert seen == [str(path) for path in changed], done.stderr[-3000:]


def test_the_adapter_knows_the_lists_that_may_not_be_empty() -> None:
    schema = index.load_schema("ms-swift/schema-4.6.json", index.CATALOG)
    found = {
        key
        for keys in (schema["common"], *schema["methods"].values())
        for key, spec in keys.items()
        if spec["type"][0].startswith("list[") and spec.get("default")
    }
    assert found == set(NEVER_EMPTY)
