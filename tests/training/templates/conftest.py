from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training.templates.harness import Warm, warm_process


@pytest.fixture(scope="session")
def warm(training_runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """Trains in forks of one process that has imported torch and TRL."""
    with warm_process(training_runtime, tmp_path_factory.mktemp("warm")) as process:
        yield process
