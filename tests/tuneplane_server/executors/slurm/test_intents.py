"""What the Slurm user, who may write beside them, cannot do to the console's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneplane_server.executors.slurm import intents
from tuneplane_server.executors.slurm.intents import make_directory, write_file


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    found = tmp_path / "slurm"
    make_directory(found)
    return found


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """The files made from now on are somebody else's, whoever runs the tests."""
    monkeypatch.setattr(intents, "_makers", lambda _directory: frozenset({directory.stat().st_uid + 1}))


def test_files_are_made_in_directories_of_the_console(directory: Path) -> None:
    for text in ("first", "second"):
        write_file(directory, "bundle/config.json", text)
        write_file(directory, "job.sh", text)
    assert (directory / "bundle" / "config.json").read_text() == (directory / "job.sh").read_text() == "second"
    assert (directory / "job.sh").stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in directory.rglob("*")) == ["bundle", "config.json", "job.sh"]


def test_a_link_in_place_of_a_directory_is_not_followed(directory: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (directory / "bundle").symlink_to(elsewhere)
    with pytest.raises(OSError, match="bundle is no directory"):
        write_file(directory, "bundle/config.json", "{}")
    assert list(elsewhere.iterdir()) == []


def test_a_link_in_place_of_a_file_is_replaced(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (directory / "job.sh").symlink_to(tmp_path / "precious")
    write_file(directory, "job.sh", "text")
    assert (tmp_path / "precious").read_text() == "kept"
    assert (directory / "job.sh").read_text() == "text"


@pytest.mark.usefixtures("theirs")
def test_nothing_is_written_into_a_directory_of_somebody_else(directory: Path) -> None:
    (directory / "bundle").mkdir()
    with pytest.raises(OSError, match="bundle was not made by the console"):
        write_file(directory, "bundle/config.json", "{}")
    assert list((directory / "bundle").iterdir()) == []


def test_what_could_not_be_put_in_place_leaves_no_draft(directory: Path) -> None:
    (directory / "job.sh").mkdir()
    with pytest.raises(OSError, match=r"job\.sh"):
        write_file(directory, "job.sh", "text")
    assert [path.name for path in directory.iterdir()] == ["job.sh"]
