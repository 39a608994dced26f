"""Launches that come too late are known whatever clocks say, also to the next daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneplane_node.daemon import removals as module
from tuneplane_node.daemon.removals import Removals, attempt_key

KEY = attempt_key("0123456789abcdef", "1")


async def test_only_what_was_cleaned_up_since_is_late(tmp_path: Path) -> None:
    removals = Removals(tmp_path / "state" / "removals.json")
    before = removals.ticket()
    await removals.note(KEY, "tp-a-1-0")
    assert removals.is_late(before, KEY)
    assert removals.is_late(before, "other", "tp-a-1-0")
    assert not removals.is_late(before, attempt_key("0123456789abcdef", "2"))
    assert not removals.is_late(removals.ticket(), KEY)
    assert not removals.is_late("", KEY), "an older console tells nothing of when it began"


async def test_the_next_daemon_knows_it(tmp_path: Path) -> None:
    removals = Removals(tmp_path / "removals.json")
    before = removals.ticket()
    await removals.note(KEY)
    again = Removals(tmp_path / "removals.json")
    assert again.is_late(before, KEY)
    assert again.ticket() == removals.ticket()
    assert not again.is_late(again.ticket(), KEY)


@pytest.mark.parametrize("spoilt", [b"", b"{}", b"[]", b'{"epoch": "x", "count": "y", "removed": {}}', b"\xff"])
async def test_of_a_spoilt_record_every_ticket_of_before_is_void(tmp_path: Path, spoilt: bytes) -> None:
    removals = Removals(tmp_path / "removals.json")
    await removals.note("x")
    before = removals.ticket()
    (tmp_path / "removals.json").write_bytes(spoilt)
    again = Removals(tmp_path / "removals.json")
    assert again.is_late(before, KEY)
    assert not again.is_late(again.ticket(), KEY)
    assert again.is_late("no-ticket", KEY)


async def test_the_record_is_bounded_and_what_is_forgotten_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT", 3)
    removals = Removals(tmp_path / "removals.json")
    before = removals.ticket()
    await removals.note(KEY)
    later = removals.ticket()
    for number in range(4):
        await removals.note(f"name-{number}")
    assert removals.is_late(before, KEY)
    assert removals.is_late(later, KEY), "nobody knows any more"
    assert not removals.is_late(removals.ticket(), KEY)


async def test_a_full_disk_keeps_no_cleanup(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    removals = Removals(tmp_path / "file" / "removals.json")
    before = removals.ticket()
    await removals.note(KEY)
    assert removals.is_late(before, KEY)
