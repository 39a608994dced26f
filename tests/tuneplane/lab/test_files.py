"""Files are written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tuneplane.lab.files import replace_file, write_new


def test_a_file_is_replaced_and_gets_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    replace_file(path, b"new", mode=0o600)
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


def test_a_crash_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", lambda _fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new")
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


def test_a_new_file_never_replaces_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_new(path, "one")
    with pytest.raises(FileExistsError):
        write_new(path, "two")
    assert path.read_text() == "one"
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


def test_without_hard_links_it_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    path = tmp_path / "file"
    write_new(path, "one")
    assert path.read_text() == "one"
    with pytest.raises(FileExistsError):
        write_new(path, "two")


def test_a_link_lying_in_wait_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f".file.{os.getpid()}.tmp").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        replace_file(tmp_path / "file", b"theirs")
    assert victim.read_text() == "mine"
