"""Paths of artifacts and ranges of bytes: what a job or a client writes is checked before it is used."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain.artifact_paths import ByteRange, is_safe, parse_range

parts = st.sampled_from(["a", "..", ".", "", "b c", "字", "\\", "\0", "x" * 600, "%2e%2e", "a\nb"])


@given(st.lists(parts, min_size=1, max_size=5).map("/".join))
def test_a_safe_path_is_its_own_normal_form_and_stays_inside(path):
    if is_safe(path):
        assert posixpath.normpath(path) == path
        assert posixpath.normpath("/out/" + path).startswith("/out/")
        assert len(path.encode()) <= 1024


@pytest.mark.parametrize(
    "path", ["a", "checkpoints/checkpoint-4/model.safetensors", "a b/ü.txt", "a%2Fb", "..a/b..", "🙂"]
)
def test_ordinary_names_are_safe(path):
    assert is_safe(path)


@pytest.mark.parametrize(
    "path",
    ["", "/", "/etc/passwd", "..", "a/..", "../a", "a//b", "a/", "./a", "a/./b", "..\\a", "a\0", "a\r\n", "x" * 1025, "a\udcff", "\u202egpj.a"],
)  # fmt: skip
def test_tricks_are_not(path):
    assert not is_safe(path)


@given(st.integers(1, 1000), st.integers(0, 1200), st.integers(0, 1200))
def test_a_range_is_what_the_rfc_says(size, first, last):
    if first >= size:
        with pytest.raises(ValueError, match="beyond"):
            parse_range(f"bytes={first}-", size)
    else:
        assert parse_range(f"bytes={first}-", size) == ByteRange(first, size)
        wanted = ByteRange(first, min(size, last + 1)) if last >= first else None
        assert parse_range(f"bytes={first}-{last}", size) == wanted
    if last:
        assert parse_range(f"bytes=-{last}", size) == ByteRange(max(0, size - last), size)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=1-2,4-5",
        "items=0-1",
        "bytes=+1-2",
        "bytes=１-2",
        "bytes=" + "9" * 30 + "-",
    ],
)
def test_other_ranges_are_ignored(header):
    assert parse_range(header, 10) is None


@pytest.mark.parametrize(("header", "size"), [("bytes=-0", 10), ("bytes=0-", 0), ("bytes=-5", 0), ("bytes=10-", 10)])
def test_ranges_beyond_the_file_are_told(header, size):
    with pytest.raises(ValueError, match=r"."):
        parse_range(header, size)


def test_the_unit_may_be_written_in_any_case():
    assert parse_range(" Bytes = 1-2 ".replace(" = ", "="), 10) == ByteRange(1, 3)
