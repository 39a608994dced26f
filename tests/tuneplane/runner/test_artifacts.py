"""The index of the out dir: sizes, digests that cost the GPUs nothing, links and odd names."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.runner.job_folder import JobFolder
from tuneplane.runner import limits
from tuneplane.runner.artifacts import Hasher, build_index, walk
from tuneplane.runner.capsule import Capsule, read_capsule
from tuneplane.runner.watcher import Watcher


@pytest.fixture
def capsule(make_job: Callable[..., JobFolder]) -> Capsule:
    return read_capsule(str(make_job("true").capsule_dir), {})


def never() -> bool:
    return False


def test_sizes_digests_and_what_is_left_out(capsule: Capsule, tmp_path: Path) -> None:
    out = Path(capsule.out_dir)
    (out / "deep/er").mkdir(parents=True)
    (out / "deep/er/file").write_bytes(b"content")
    (out / "outcome.json").write_text("{}")
    (out / "outcome.1.json").write_text("{}")
    (tmp_path / "secret").write_text("outside")
    (out / "link").symlink_to(tmp_path / "secret")
    (out / "dirlink").symlink_to(tmp_path)
    (out / os.fsdecode(b"odd\xff")).write_bytes(b"x")
    index = build_index(capsule, Hasher(capsule.out_dir), 10, 10)
    assert [entry["path"] for entry in index["files"]] == ["deep/er/file", "odd\ufffd"]
    assert index["files"][0]["sha256"] == hashlib.sha256(b"content").hexdigest()
    assert index["files"][0]["size"] == 7
    assert not index["truncated"]
    json.dumps(index).encode()


def test_without_time_the_digest_is_left_to_the_engine(capsule: Capsule) -> None:
    (Path(capsule.out_dir) / "big").write_bytes(b"x" * 1000)
    index = build_index(capsule, Hasher(capsule.out_dir), 10, -1)
    assert index["files"] == [{"path": "big", "size": 1000}]


def test_a_digest_is_kept_while_the_file_is_the_same_and_dropped_when_it_changes(capsule: Capsule) -> None:
    path = Path(capsule.out_dir) / "file"
    path.write_bytes(b"one")
    hasher = Hasher(capsule.out_dir)
    (facts,) = walk(capsule.out_dir, never)
    assert hasher.hash(facts, never) == hashlib.sha256(b"one").hexdigest() == hasher.known(facts)
    path.write_bytes(b"changed")
    (facts,) = walk(capsule.out_dir, never)
    assert hasher.known(facts) is None


def test_a_file_that_changes_while_it_is_read_has_no_digest(capsule: Capsule) -> None:
    path = Path(capsule.out_dir) / "file"
    path.write_bytes(b"one")
    (facts,) = walk(capsule.out_dir, never)

    def over() -> bool:
        path.write_bytes(b"another")
        return False

    assert Hasher(capsule.out_dir).hash(facts, over) is None


def test_the_number_of_files_is_bounded(capsule: Capsule) -> None:
    for number in range(5):
        (Path(capsule.out_dir) / str(number)).touch()
    assert len(list(walk(capsule.out_dir, never, most=3))) == 3


def test_the_watcher_announces_a_checkpoint_once_and_hashes_it_during_the_run(
    capsule: Capsule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    monkeypatch.setattr(limits, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(limits, "STABLE_SECONDS", 0.0)
    seen, events = threading.Event(), []

    def event(name: str, data: Any) -> None:
        events.append((name, data))
        seen.set()

    hashed = threading.Event()

    class Watched(Hasher):
        def hash(self, *args: Any, **options: Any) -> Any:
            digest = super().hash(*args, **options)
            hashed.set()
            return digest

    for name in ("checkpoint-1", "checkpoint-2"):
        (Path(capsule.out_dir) / "checkpoints" / name).mkdir(parents=True)
        (Path(capsule.out_dir) / "checkpoints" / name / "COMPLETE").touch()
    hasher = Watched(capsule.out_dir)
    watcher = Watcher(capsule, hasher, {"checkpoints/checkpoint-1": None}, str(tmp_path), event)
    watcher.start()
    assert seen.wait(60)
    assert hashed.wait(60)
    watcher.stop()
    assert events == [("checkpoint", {"path": "checkpoints/checkpoint-2", "step": 2})]
    assert any(hasher.known(facts) for facts in walk(capsule.out_dir, never))
