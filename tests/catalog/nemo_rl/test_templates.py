"""What is ours in the templates of maxrl and opsd, computed with torch against the definitions. NeMo RL itself needs its image and GPUs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tuneplane.recipes import index

pytestmark = [pytest.mark.catalog, pytest.mark.timeout(180)]


def test_maxrl_and_opsd_compute_what_their_papers_say(framework_env: Callable[[str], Path]) -> None:
    python = framework_env("nemo-rl") / "bin/python"
    templates = [index.CATALOG / "nemo-rl" / method / "template" for method in ("maxrl", "opsd")]
    script = Path(__file__).with_name("template_checks.py")
    done = subprocess.run([python, "-B", script, *templates], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "checked"), done.stderr
