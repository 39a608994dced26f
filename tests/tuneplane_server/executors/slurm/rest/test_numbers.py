"""Numbers, node lists and lists of resources, as slurm.h and `man slurm.conf` have them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.executors.slurm.rest.numbers import (
    MAX_HOSTS,
    cards,
    cards_by_type,
    hosts,
    minutes,
    moment,
    number,
    text,
    words,
)

whole = st.integers(0, 2**31)


def wrapped(value: int | float, *, is_set: bool = True, infinite: bool = False) -> dict[str, Any]:
    return {"set": is_set, "infinite": infinite, "number": value}


@given(whole)
def test_a_number_is_the_same_plain_and_wrapped_and_in_words(value: int) -> None:
    assert number(value) == number(wrapped(value)) == number(str(value)) == value


@pytest.mark.parametrize("value", [65533, 65534, 65535])
def test_what_sixteen_bits_would_mean_by_none_is_an_id_like_others(value: int) -> None:
    assert number(value) == number(wrapped(value)) == value


@given(whole)
def test_what_is_not_set_or_has_no_bound_is_none(value: int) -> None:
    assert number(wrapped(value, is_set=False)) is None
    assert number(wrapped(value, infinite=True)) is None


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "abc",
        True,
        -1,
        4294967294,
        4294967295,
        2**64 - 2,
        float("nan"),
        float("inf"),
        [],
        {},
        {"number": None},
    ],
)
def test_what_is_no_number_is_none(value: object) -> None:
    assert number(value) is None


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["set", "infinite", "number"]), inner)))  # fmt: skip
def test_whatever_comes_is_read_without_a_failure(value: object) -> None:
    for read in (number, minutes, moment, cards, cards_by_type, hosts, words, text):
        read(value)


def test_a_moment_is_utc_and_zero_is_none() -> None:
    assert moment(wrapped(1796036708)) == datetime(2026, 11, 30, 11, 5, 8, tzinfo=UTC)
    assert moment(0) is None
    assert moment(wrapped(2**62)) is None
    assert minutes(0) is None


@pytest.mark.parametrize(
    ("resources", "count"),
    [
        ("cpu=4,mem=2000M,node=2,billing=4", None),
        ("cpu=4,node=2,billing=4,gres/gpu=8,gres/gpu:h200=8", 8),
        ("gres/gpu:a100=2,gres/gpu:h200=4", 6),
        ("gres/gpu=6,gres/gpu:a100=2", 6),
        ("gres:gpu:h200:4", 4),
        ("gres/gpu:h200:4", 4),
        ("gres/gpu:4", 4),
        ("gpu:h200:4(IDX:0-3)", 4),
        ("gpu:h200:0(IDX:N/A)", 0),
        ("gpu:h200:4(S:0-1),nic:2", 4),
        ("gpu:4(IDX:0,2,4-5),shard:h200:16(IDX:0)", 4),
        ("gpu", 1),
        ("gpu:h200", 1),
        ("gpu:nvidia_h200_nvl.2:1K", 1024),
        ("shard=8,gres/gpumem=80G,gres/gpuutil=100", None),
        ("", None),
        ("(null)", None),
        (None, None),
    ],
)
def test_cards_are_counted(resources: str | None, count: int | None) -> None:
    assert cards(resources) == count


def test_cards_of_a_node_are_counted_by_type() -> None:
    assert cards_by_type("gpu:h200:8(S:0-1),gpu:a100:2,shard:16,gpu:1") == {"h200": 8, "a100": 2, "": 1}
    assert cards_by_type("(null)") == cards_by_type("") == cards_by_type(None) == {}


@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9_.-]{0,8}", fullmatch=True), st.integers(1, 1000)))
def test_cards_by_type_are_those_written(given_cards: dict[str, int]) -> None:
    written = ",".join(f"gpu:{kind}:{count}(S:0)" for kind, count in given_cards.items())
    assert cards_by_type(written) == given_cards
    assert cards(written) == (sum(given_cards.values()) if given_cards else None)


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3,5]", ["n1", "n2", "n3", "n5"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("gpu[01-02,7],login", ["gpu01", "gpu02", "gpu7", "login"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("n[1-2].rack1.example", ["n1.rack1.example", "n2.rack1.example"]),
        ("a,b, c", ["a", "b", "c"]),
        ("", []),
        ("(null)", []),
        ("None assigned", []),
        (None, []),
        ("n[1-", []),
        ("n[3-1]", []),
        ("n[x]", []),
        ("n[[1]]", []),
        (f"n[0-{MAX_HOSTS}]", []),
        ("n[0-999][0-999]", []),
        ("n[1-99999999999999999999]", []),
    ],
)
def test_node_lists_are_written_out(expression: str | None, names: list[str]) -> None:
    assert hosts(expression) == tuple(names)


@given(st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 40)), min_size=1, max_size=8), st.integers(1, 6))
def test_ranges_give_every_number_of_theirs(ranges: list[tuple[int, int]], digits: int) -> None:
    written = ",".join(f"{first:0{digits}}-{first + more:0{digits}}" for first, more in ranges)
    expected = [f"n{value:0{digits}}" for first, more in ranges for value in range(first, first + more + 1)]
    assert hosts(f"n[{written}]") == tuple(expected)


@given(st.lists(st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True), min_size=1, max_size=20))
def test_plain_names_stay_as_they_are(names: list[str]) -> None:
    assert hosts(",".join(names)) == tuple(names)


def test_states_are_words_however_they_are_written() -> None:
    assert words(["CANCELLED", "COMPLETING"]) == {"CANCELLED", "COMPLETING"}
    assert words("idle") | words(["DRAIN"]) == {"IDLE", "DRAIN"}
    assert words("IDLE+DRAIN") == {"IDLE", "DRAIN"}
    assert words(None) == frozenset()


def test_slurms_words_for_none_are_empty() -> None:
    assert [text(word) for word in ("None", "(null)", "N/A", None, 3, "Resources")] == ["", "", "", "", "", "Resources"]
