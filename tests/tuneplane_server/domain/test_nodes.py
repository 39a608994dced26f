"""How a node is, by what was heard of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tuneplane_server.domain.nodes import UNHEARD_AFTER, NodeFacts, NodeHealth, health_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HALF_AN_HOUR = timedelta(minutes=30)
FINE = NodeFacts(NOW, refused=False, callable=True, proved=True, fenced=False, lost_after=HALF_AN_HOUR)
SILENT = replace(FINE, last_heard=NOW - UNHEARD_AFTER)


@pytest.mark.parametrize(
    ("facts", "health"),
    [
        (FINE, NodeHealth.READY),
        (replace(FINE, proved=False), NodeHealth.UNPROVED),
        (replace(FINE, callable=False), NodeHealth.UNREACHABLE),
        (replace(FINE, refused=True), NodeHealth.REFUSED),
        (replace(FINE, refused=True, callable=False), NodeHealth.UNREACHABLE),
        (replace(FINE, fenced=True), NodeHealth.READY),
        (SILENT, NodeHealth.UNREACHABLE),
        (replace(SILENT, refused=True), NodeHealth.UNREACHABLE),
        (replace(SILENT, fenced=True), NodeHealth.LOST),
        (replace(FINE, last_heard=NOW - HALF_AN_HOUR), NodeHealth.LOST),
        (replace(FINE, last_heard=NOW - 100 * HALF_AN_HOUR, lost_after=None), NodeHealth.UNREACHABLE),
        (replace(FINE, last_heard=NOW - UNHEARD_AFTER + timedelta(seconds=1)), NodeHealth.READY),
    ],
)
def test_health(facts: NodeFacts, health: NodeHealth) -> None:
    assert health_of(facts, NOW) is health
