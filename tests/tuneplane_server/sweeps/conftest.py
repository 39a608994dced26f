from __future__ import annotations

import pytest

from tests.tuneplane_server.harness import Harness
from tests.tuneplane_server.sweeps.build import Sweeps
from tuneplane_server.features.accounts.principal import Principal


@pytest.fixture
def sweeps(harness: Harness, ada: Principal) -> Sweeps:
    """Runs the test twice, on SQLite and on Postgres."""
    return Sweeps(harness, ada)
