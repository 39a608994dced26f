"""Which consoles may do background work together (scenario 9)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain.findings import FINDINGS, REPLICAS_ON_ONE_MACHINE, REPLICAS_WITHOUT_REDIS
from tuneplane_server.domain.replicas import Replica, obstacle

WITH, WITHOUT = Replica("a", True, False), Replica("b", False, False)
LOCAL = Replica("c", True, True)


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ([WITHOUT], None),
        ([LOCAL], None),
        ([WITH, WITH], None),
        ([WITHOUT, WITHOUT], REPLICAS_WITHOUT_REDIS),
        ([WITH, WITHOUT], REPLICAS_WITHOUT_REDIS),
        ([WITH, LOCAL], REPLICAS_ON_ONE_MACHINE),
    ],
)
def test_one_console_works_and_several_need_redis_and_runs_that_all_can_see(
    replicas: list[Replica], code: str | None
) -> None:
    assert obstacle(replicas) == code


@given(st.lists(st.builds(Replica, st.text(max_size=3), st.booleans(), st.booleans()), max_size=5))
def test_the_answer_is_the_same_for_all_of_them(replicas: list[Replica]) -> None:
    answers = {obstacle(replicas[start:] + replicas[:start]) for start in range(len(replicas))}
    assert len(answers) <= 1
    assert answers <= {None, *FINDINGS}
