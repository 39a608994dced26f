"""What the plugin does to a whole run, seen on small runs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.session import ROOT


def run_pytest(folder: Path, source: str, *arguments: str, **environment: str) -> str:
    (folder / "test_sample.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    services:\n    browser:\n    training:\n")
    env = {key: value for key, value in os.environ.items() if key not in ("CI", "TUNEPLANE_TEST_REQUIRE_SERVICES")}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.services.plugin", *arguments, str(folder)],
        check=False, capture_output=True, text=True, cwd=ROOT, env={**env, **environment}, timeout=60,
    )  # fmt: skip
    return result.stdout


@pytest.mark.parametrize(
    ("reason", "environment", "outcome"),
    [
        ("no network", {}, "1 skipped"),
        ("no network", {"CI": "true"}, "1 failed"),
        ("no network", {"TUNEPLANE_TEST_REQUIRE_SERVICES": "1"}, "1 failed"),
        ("hardware: no NVIDIA card", {"CI": "true"}, "1 skipped"),
    ],
)
def test_a_complete_run_has_no_skips_but_for_hardware(
    tmp_path: Path, reason: str, environment: dict[str, str], outcome: str
) -> None:
    source = f"import pytest\n\ndef test_it():\n    pytest.skip({reason!r})\n"
    assert outcome in run_pytest(tmp_path, source, **environment)


def test_a_fixture_puts_its_test_into_a_layer(tmp_path: Path) -> None:
    source = (
        "def test_rule():\n    pass\n\ndef test_lock(redis_url):\n    pass\n\ndef test_page(chromium_path):\n    pass\n"
    )
    fast = run_pytest(tmp_path, source, "--collect-only", "-m", "not services and not browser")
    assert "test_rule" in fast
    assert "1/3 tests collected" in fast


def test_settings_of_the_person_at_the_keyboard_do_not_reach_the_tests(tmp_path: Path) -> None:
    source = (
        "import os\n\ndef test_it():\n"
        "    assert 'TUNEPLANE_SERVER' not in os.environ\n"
        "    assert not os.path.exists(os.environ['TUNEPLANE_HOME'])\n"
        "    assert os.environ['LC_ALL'] == 'C.UTF-8'\n"
    )
    output = run_pytest(tmp_path, source, TUNEPLANE_SERVER="https://example.org", LC_ALL="zh_CN.UTF-8")
    assert "1 passed" in output
