"""What the Slurm user, who may write beside them, cannot do to the console's own files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tuneplane_server.executors.slurm import intents
from tuneplane_server.executors.slurm.intents import (
    OVER_FILE,
    STOP_FILE,
    Intent,
    begin,
    first_time,
    make_directory,
    read_intent,
    time_of,
    write_file,
)


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


@pytest.mark.parametrize(
    "text", ["x", "", "[]", "{}", '{"at": "soon"}', '{"at": NaN}', '{"at": null}', "[" * 60_000, "\xff"]
)
def test_what_holds_no_time_is_not_there_and_makes_room(directory: Path, text: str) -> None:
    (directory / STOP_FILE).write_bytes(text.encode("latin-1"))
    assert time_of(directory, STOP_FILE) is None
    assert first_time(directory, STOP_FILE, 17.0) == 17.0
    assert first_time(directory, STOP_FILE, 99.0) == time_of(directory, STOP_FILE) == 17.0


@pytest.mark.parametrize("kind", ["directory", "link", "pipe"])
def test_what_is_no_file_is_not_there_and_makes_room(directory: Path, tmp_path: Path, kind: str) -> None:
    (tmp_path / "at").write_text('{"at": 1}')
    if kind == "directory":
        (directory / OVER_FILE / "inner").mkdir(parents=True)
    elif kind == "link":
        (directory / OVER_FILE).symlink_to(tmp_path / "at")
    else:
        os.mkfifo(directory / OVER_FILE)
    assert time_of(directory, OVER_FILE) is None
    assert first_time(directory, OVER_FILE, 17.0) == time_of(directory, OVER_FILE) == 17.0


@pytest.mark.usefixtures("theirs")
def test_the_word_of_somebody_else_that_a_job_is_over_says_nothing(directory: Path) -> None:
    (directory / OVER_FILE).write_text('{"at": 1}')
    assert time_of(directory, OVER_FILE) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_word_of_another_user_makes_room_for_the_console_s(directory: Path) -> None:
    (directory / OVER_FILE).write_text('{"at": 1}')
    os.chown(directory / OVER_FILE, 61017, 61017)
    assert time_of(directory, OVER_FILE) is None
    assert first_time(directory, OVER_FILE, 17.0) == time_of(directory, OVER_FILE) == 17.0


def test_a_directory_that_is_away_is_not_an_empty_one(directory: Path) -> None:
    """`over.json` is not there, or nobody can look: the difference is one between running and gone."""
    (directory.parent / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="loop"):
        time_of(directory.parent / "loop", OVER_FILE)


def test_a_try_of_another_console_is_left_and_anything_else_in_its_place_is_not(directory: Path) -> None:
    (directory / "intent-1.json").mkdir()
    intent = Intent(n=1, at=5.0, first=5.0, nodes=("slurm/a-1/0",), gpus=8, runtime="oci")
    assert begin(directory, intent)
    assert not begin(directory, replace(intent, at=6.0))
    assert read_intent(directory) == intent


def test_of_many_tries_the_last_ones_are_kept(directory: Path) -> None:
    last = intents.KEPT_TRIES + 3
    for n in range(1, last + 1):
        assert begin(directory, Intent(n=n, at=float(n), first=1.0, nodes=("slurm/a-1/0",), gpus=8, runtime="oci"))
    assert len(list(directory.glob("intent-*.json"))) == intents.KEPT_TRIES
    found = read_intent(directory)
    assert found is not None
    assert (found.n, found.first) == (last, 1.0)


def test_a_console_that_slept_through_all_kept_tries_makes_none_of_them_again(directory: Path) -> None:
    tries = [
        Intent(n=n, at=float(n), first=1.0, nodes=("slurm/a-1/0",), gpus=8, runtime="oci")
        for n in range(1, intents.KEPT_TRIES + 4)
    ]
    assert all(begin(directory, each) for each in tries)
    assert not begin(directory, replace(tries[1], at=99.0)), "it was made, and dropped since"
    assert read_intent(directory) == tries[-1]
    assert not (directory / "intent-2.json").exists()
