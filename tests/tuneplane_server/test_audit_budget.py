"""What can be repeated without end is audited up to a bound."""

from __future__ import annotations

from tuneplane_server.features.audit.budget import AuditBudget


def test_so_many_in_so_many_seconds() -> None:
    now = [0.0]
    budget = AuditBudget(2, 10.0, clock=lambda: now[0])
    assert [budget.take() for _time in range(4)] == [True, True, False, False]
    now[0] = 9.9
    assert not budget.take()
    now[0] = 10.0
    assert [budget.take() for _time in range(3)] == [True, True, False]
