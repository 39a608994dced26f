"""Attempts on one machine and on several."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tuneplane_server.executors.slurm.stage import TWO_POOLS, Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
def gang(tmp_path: Path) -> Stage:
    return Stage(tmp_path, TWO_POOLS)
