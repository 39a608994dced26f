from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain.slurm_choices import Partitions, QosLevels, is_name, parse_partitions, parse_qos


def test_a_partition_by_profile_whatever_its_case_and_one_for_the_others() -> None:
    found = parse_partitions("main, H200=gpu,cpu=small,l40s=gpu")
    assert [found.of(profile) for profile in ("h200", "H200", "cpu", "b200")] == ["gpu", "gpu", "small", "main"]
    assert found.names == ("gpu", "small", "main")


def test_without_a_partition_slurm_chooses() -> None:
    assert (Partitions().of("h200"), Partitions().names) == (None, ())
    assert parse_partitions("h200=gpu").of("cpu") is None


def test_a_qos_counts_from_its_priority_on() -> None:
    found = parse_qos("50=high, -10=normal")
    assert [found.of(priority) for priority in (-11, -10, 49, 50, 100)] == [None, "normal", "normal", "high", "high"]
    assert found.names == ("normal", "high")
    assert (QosLevels().of(0), QosLevels().names) == (None, ())


@given(st.integers(-100, 100))
def test_a_qos_alone_is_for_every_priority(priority: int) -> None:
    assert parse_qos("batch").of(priority) == "batch"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "name"),
        ("two words", "name"),
        ("a=", "name"),
        ("=gpu", "name"),
        ("h 200=gpu", "name"),
        ("main,other", "twice"),
        ("h200=a,H200=b", "twice"),
        ("a=b=c", "name"),
    ],
)
def test_what_names_no_partition_is_told_by_one_word(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=f"^{fault}$"):
        parse_partitions(text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a b", "name"),
        ("high=0", "priority"),
        ("101=high", "priority"),
        ("=high", "priority"),
        ("0=a,0=b", "twice"),
        ("a,b", "twice"),
        ("٣=high", "priority"),  # a digit, but no figure
    ],
)
def test_what_names_no_qos_is_told_by_one_word(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=f"^{fault}$"):
        parse_qos(text)


def test_a_name_is_one_word_of_bounded_length() -> None:
    assert is_name("team-a_1.x@y")
    assert not is_name("-x")
    assert not is_name("a\n")
    assert not is_name("x" * 129)
