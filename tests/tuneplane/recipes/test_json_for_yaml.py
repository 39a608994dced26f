"""The adapters' configuration file means the same to a JSON reader and to PyYAML, which is what TRL's parser uses."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tuneplane.adapters.json_for_yaml import dumps

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=40)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4)
)


def same(left: Any, right: Any) -> bool:
    """Equal, and of equal types all the way down: 1 is not True, and 1.0 is not 1."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


@given(VALUES)
def test_json_and_yaml_readers_agree(value: Any) -> None:
    text = dumps(value)
    text.encode("utf-8")
    assert same(json.loads(text), value)
    assert same(yaml.safe_load(text), value)


@pytest.mark.parametrize(
    "value",
    [1e-05, 1e22, -1.5e-300, 5e-324, "no", "1e-5", "\x85", "\u2028", "\ufeff", "🚀", "<<", "=", "~", "a: b # c", "- x"],
)
def test_what_yaml_reads_differently_by_itself(value: Any) -> None:
    assert same(yaml.safe_load(dumps({"key": [value]})), {"key": [value]})


def test_what_json_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        dumps({"loss": float("nan")})
    with pytest.raises(TypeError, match="keys are text"):
        dumps({1: "one"})
    with pytest.raises(TypeError, match="set is not a JSON value"):
        dumps({1, 2})
