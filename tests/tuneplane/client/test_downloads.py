"""Files of a job: resumed where they stopped, checked, never written outside of their directory, never half there."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.client.scripted_server import Reply, Request, ScriptedServer, problem
from tuneplane.client.downloads import Downloaded, download, safe_target
from tuneplane.client.errors import ConsoleError, DamagedError, NotFoundError
from tuneplane.client.http import Console

RUN = "0" * 16
DATA = bytes(range(256)) * 5000
SHA = hashlib.sha256(DATA).hexdigest()


def serve(request: Request, data: bytes = DATA) -> Reply:
    """As a server with ranges does it."""
    wanted = request.headers.get("range", "")
    if not wanted:
        return Reply(200, data)
    start = int(wanted.removeprefix("bytes=").removesuffix("-"))
    if start >= len(data):
        return Reply(416, b"", {"Content-Range": f"bytes */{len(data)}"})
    return Reply(206, data[start:], {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"})


class Fetch:
    def __init__(self, server: ScriptedServer, directory: Path) -> None:
        self.server, self.directory = server, directory
        self.answer(serve)

    def answer(self, how: Any) -> None:
        self.server.answers[f"/api/v1/jobs/{RUN}/artifacts/file"] = how

    def __call__(self, path: str = "model/a.bin", **changes: Any) -> Downloaded:
        file: Any = {"path": path, "size": len(DATA), "sha256": SHA, "attempt": 2, **changes}
        with Console(self.server.url, "t", sleep=lambda _s: None) as console:
            return download(console, RUN, file, self.directory)

    @property
    def target(self) -> Path:
        return self.directory / "model/a.bin"

    @property
    def part(self) -> Path:
        return self.directory / "model/a.bin.part"

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.directory)) for path in self.directory.rglob("*") if path.is_file())


@pytest.fixture
def fetch(server: ScriptedServer, tmp_path: Path) -> Fetch:
    directory = tmp_path / "out"
    directory.mkdir()
    return Fetch(server, directory)


def test_a_file_arrives_whole_and_verified(fetch: Fetch) -> None:
    found = fetch()
    assert found == Downloaded(fetch.target, len(DATA), fresh=True, verified=True)
    assert fetch.target.read_bytes() == DATA
    assert fetch.files() == ["model/a.bin"]
    assert fetch.server.seen[0].query == {"attempt": ["2"], "path": ["model/a.bin"]}


def test_what_is_there_and_right_is_not_fetched(fetch: Fetch) -> None:
    fetch()
    assert fetch().fresh is False
    assert len(fetch.server.seen) == 1


def test_what_is_there_and_wrong_is_fetched_anew(fetch: Fetch) -> None:
    fetch.target.parent.mkdir()
    fetch.target.write_bytes(b"x" * len(DATA))
    assert fetch().fresh
    assert fetch.target.read_bytes() == DATA


def test_a_download_goes_on_where_it_stopped(fetch: Fetch) -> None:
    fetch.part.parent.mkdir()
    fetch.part.write_bytes(DATA[:1000])
    fetch()
    assert fetch.target.read_bytes() == DATA
    assert fetch.server.seen[0].headers["range"] == "bytes=1000-"


def test_an_interrupted_download_keeps_what_came_and_then_goes_on(fetch: Fetch) -> None:
    fetch.answer(lambda _request: Reply(200, DATA[:70_000], length=len(DATA)))
    with pytest.raises(ConsoleError):
        fetch()
    assert not fetch.target.exists()
    kept = fetch.part.stat().st_size
    assert fetch.part.read_bytes() == DATA[:kept]
    fetch.answer(serve)
    fetch()
    assert fetch.target.read_bytes() == DATA


def test_a_part_that_is_complete_already_only_needs_its_name(fetch: Fetch) -> None:
    fetch.part.parent.mkdir()
    fetch.part.write_bytes(DATA)
    fetch()
    assert fetch.server.seen == []
    assert fetch.files() == ["model/a.bin"]


@pytest.mark.parametrize("left", [b"wrong" * 100, b"x" * len(DATA), b"x" * (len(DATA) + 1)])
def test_a_leftover_of_something_else_is_thrown_away(fetch: Fetch, left: bytes) -> None:
    fetch.part.parent.mkdir()
    fetch.part.write_bytes(left)
    fetch()
    assert fetch.target.read_bytes() == DATA
    assert fetch.files() == ["model/a.bin"]


def test_a_console_without_ranges_sends_the_whole_file(fetch: Fetch) -> None:
    fetch.part.parent.mkdir()
    fetch.part.write_bytes(DATA[:1000])
    fetch.answer(Reply(200, DATA))
    fetch()
    assert fetch.target.read_bytes() == DATA


def test_a_range_that_begins_elsewhere_is_not_glued_together(fetch: Fetch) -> None:
    fetch.part.parent.mkdir()
    fetch.part.write_bytes(DATA[:1000])
    replies = [Reply(206, DATA[500:], {"Content-Range": f"bytes 500-{len(DATA) - 1}/{len(DATA)}"}), Reply(200, DATA)]
    fetch.answer(lambda _request: replies.pop(0))
    fetch()
    assert fetch.target.read_bytes() == DATA


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"y" * len(DATA), "damaged"), (DATA[:-1], "bytes"), (DATA + b"z", "longer"), (b"", "bytes")],
)
def test_a_file_that_is_not_what_was_promised_never_gets_its_name(fetch: Fetch, data: bytes, words: str) -> None:
    fetch.answer(Reply(200, data))
    with pytest.raises(DamagedError, match=words):
        fetch()
    assert fetch.files() == []


def test_without_a_digest_the_size_is_checked_and_it_says_so(fetch: Fetch) -> None:
    assert fetch(sha256=None).verified is False
    fetch.target.unlink()
    fetch.answer(Reply(200, DATA[:-1]))
    with pytest.raises(DamagedError):
        fetch(sha256=None)


def test_an_empty_file_arrives_too(fetch: Fetch) -> None:
    fetch.answer(Reply(200, b""))
    fetch(size=0, sha256=hashlib.sha256(b"").hexdigest())
    assert fetch.target.read_bytes() == b""


def test_a_file_that_is_gone_is_told(fetch: Fetch) -> None:
    fetch.answer(problem(404, "not-found", "no such file"))
    with pytest.raises(NotFoundError, match="no such file"):
        fetch()


NAMES = [
    "../a", "a/../../b", "/etc/passwd", "a//b", "./a", "a/.", "", "a\\b", "..\\a", "a\0b", "a\nb", "a/\x1b[31m", "x" * 300, "a/", "..",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_that_lead_elsewhere_are_refused_before_anything_is_sent(fetch: Fetch, name: str) -> None:
    with pytest.raises(DamagedError):
        fetch(name)
    assert fetch.server.seen == []
    assert fetch.files() == []


def test_nothing_is_written_through_a_link(fetch: Fetch, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (fetch.directory / "model").symlink_to(elsewhere)
    with pytest.raises(DamagedError, match="link"):
        fetch()
    (fetch.directory / "model").unlink()
    (fetch.directory / "model").mkdir()
    fetch.target.symlink_to(elsewhere / "victim")
    with pytest.raises(DamagedError, match="link"):
        fetch()
    fetch.target.unlink()
    fetch.part.symlink_to(elsewhere / "victim")
    fetch()
    assert list(elsewhere.iterdir()) == []
    fetch.target.unlink()
    (elsewhere / "victim").write_bytes(b"mine")
    fetch.part.symlink_to(elsewhere / "victim")
    fetch()
    assert (elsewhere / "victim").read_bytes() == b"mine"


def test_a_disk_that_cannot_be_written_is_told(fetch: Fetch) -> None:
    (fetch.directory / "model").write_text("a file where a directory belongs")
    with pytest.raises(ConsoleError, match="cannot be written"):
        fetch()


def test_a_plain_name_stays_below_the_directory(tmp_path: Path) -> None:
    assert safe_target(tmp_path, "a/b 文.txt") == tmp_path / "a" / "b 文.txt"
    assert os.path.commonpath([safe_target(tmp_path, "a..b"), tmp_path]) == str(tmp_path)
