"""Profile grammar `[role,role=]name[:total_gpus]`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane.contract.profile import PoolShape, ProfileRequest, match_profile, parse_profile, shape_pool
from tuneplane.contract.refusals import RefusedError


def test_the_three_forms() -> None:
    assert parse_profile("cpu") == ProfileRequest("cpu", None)
    assert parse_profile("h200:8") == ProfileRequest("h200", 8)
    assert parse_profile("actor,critic=h200:16") == ProfileRequest("h200", 16, ("actor", "critic"))


@pytest.mark.parametrize(
    "text",
    ["", ":8", "h200:", "h200:0", "h200:-1", "h200:٤", "h200:8x", "=h200", ",=h200:1", "a b", "h200:1:2", "h200:1e3"],
)
def test_a_broken_profile_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(RefusedError) as refused:
        parse_profile(text)
    (refusal,) = refused.value.refusals
    assert refusal.code == "profile-invalid"
    assert text in refusal.message
    assert refusal.hint


def test_another_case_is_refused_with_the_right_spelling() -> None:
    assert match_profile("h200", ["h200", "cpu"]) == "h200"
    with pytest.raises(RefusedError) as refused:
        match_profile("H200", ["h200", "cpu"])
    assert "h200" in refused.value.refusals[0].hint
    with pytest.raises(RefusedError) as refused:
        match_profile("a100", ["h200", "cpu"])
    assert "cpu, h200" in refused.value.refusals[0].hint


@given(total=st.integers(1, 4096), node=st.integers(0, 16))
def test_a_pool_has_exactly_the_gpus_asked_for(total: int, node: int) -> None:
    shape = shape_pool(total, node)
    if shape is None:
        assert total > node
        assert node == 0 or total % node
    else:
        assert shape.nodes * shape.gpus_per_node == total
        assert shape.gpus_per_node <= node


def test_twelve_gpus_do_not_fit_nodes_of_eight() -> None:
    assert shape_pool(12, 8) is None
    assert shape_pool(16, 8) == PoolShape(2, 8)
