"""Values as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tuneplane_server.console import display

NOW = datetime(2026, 7, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0, "0s"), (59.9, "59s"), (185, "3m 05s"), (8040, "2h 14m"), (273600, "3d 4h")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert display.duration(seconds) == text


@pytest.mark.parametrize(
    ("age", "text"),
    [(-5, "just now"), (3, "just now"), (42, "42s ago"), (60, "1m ago"), (7200, "2h ago"), (86400 * 3, "3d ago")],
)
def test_ages(age: int, text: str) -> None:
    assert display.relative(NOW - timedelta(seconds=age), NOW) == text


def test_old_times_are_dates() -> None:
    assert display.relative(NOW - timedelta(days=40), NOW) == "2026-06-21"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (0.0, "0"),
        (7, "7"),
        (1234567, "1.235e6"),
        (0.123456789, "0.12346"),
        (12.3456, "12.346"),
        (1.5, "1.5"),
        (-2.25e-5, "-2.25e-5"),
        (99999.96, "100000"),
        (1e300, "1e300"),
        (float("nan"), "NaN"),
        (float("-inf"), "−∞"),
        ("NaN", "NaN"),
        ("Infinity", "∞"),
        ("-Infinity", "−∞"),
    ],
)
def test_numbers(value: object, text: str) -> None:
    assert display.number(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "–"), (0, "0 B"), (999, "999 B"), (1500, "1.50 kB"), (999_600, "1.00 MB"), (269e6, "269 MB")],
)
def test_sizes(count: int | None, text: str) -> None:
    assert display.size(count) == text


def test_a_pool_reads_as_people_type_a_profile() -> None:
    assert display.pool_text({"series": "h200", "nodes": 1, "gpus_per_node": 8}) == "h200:8"
    assert display.pool_text({"series": "h200", "nodes": 2, "gpus_per_node": 8}) == "h200:16 · 2 nodes"
    assert display.pool_text({"series": "cpu", "nodes": 1, "gpus_per_node": 0}) == "cpu"


def test_times_come_as_text_or_as_unix_seconds() -> None:
    assert display.iso(1785499200) == display.iso("2026-07-31T12:00:00+00:00") == "2026-07-31T12:00:00.000+00:00"
    assert display.clock("2026-07-31T14:00:00+02:00") == "2026-07-31 12:00:00 UTC"
