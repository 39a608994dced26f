"""The index of what an attempt left: the runner's, our own look, digests made later."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from tests.tuneplane_server.artifacts.conftest import Run
from tuneplane.client import types
from tuneplane.client.shapes import mismatch
from tuneplane_server.features.artifacts import files, service

STATE = json.dumps({"global_step": 4}).encode()


def put_checkpoint(run: Run, path: str = "checkpoints/checkpoint-4", **without: bool) -> None:
    run.put(f"{path}/adapter_model.bin", b"w" * 100)
    run.put(f"{path}/optimizer.pt", b"o" * 50)
    run.put(f"{path}/scheduler.pt", b"s")
    run.put(f"{path}/rng_state.pth", b"r")
    if not without.get("state"):
        run.put(f"{path}/trainer_state.json", STATE)


async def test_the_runners_index_is_listed_with_the_sizes_of_checkpoints(run):
    digest = run.put("model/weights.bin", b"abc")
    for directory in ("checkpoints/checkpoint-4", "checkpoints/checkpoint-40"):
        (run.out / directory).mkdir(parents=True)
    run.index(
        [
            {"path": "model/weights.bin", "size": 3, "sha256": digest},
            {"path": "checkpoints/checkpoint-4/a.bin", "size": 10},
            {"path": "checkpoints/checkpoint-4/sub/b.bin", "size": 5},
            {"path": "checkpoints/checkpoint-40/c.bin", "size": 7},
        ],
        [
            {"path": "checkpoints/checkpoint-4", "step": 4, "complete": True},
            {"path": "checkpoints/checkpoint-40", "step": 40, "complete": False, "problem": "no optimizer state"},
        ],
    )
    await run.artifacts.register(run.job, 1)
    found = await run.listing()
    assert mismatch(found, types.Artifacts) is None
    assert found["files"][-1] == {"attempt": 1, "path": "model/weights.bin", "size": 3, "sha256": digest}
    assert found["files"][0]["sha256"] is None
    assert [(one["path"], one["size"], one["complete"]) for one in found["checkpoints"]] == [
        ("checkpoints/checkpoint-4", 15, True),
        ("checkpoints/checkpoint-40", 7, False),
    ]
    assert found["checkpoints"][1]["problem"] == "no optimizer state"
    assert (found["out_dir"], found["truncated"]) == (str(run.out), False)
    points = await run.artifacts.checkpoints(run.job)
    assert [(one.attempt, one.path, one.step, one.complete) for one in points] == [
        (1, "checkpoints/checkpoint-4", 4, True),
        (1, "checkpoints/checkpoint-40", 40, False),
    ]


async def test_a_run_that_left_no_index_is_looked_at(run):
    """Killed, cancelled, crashed: what lies there is registered all the same."""
    put_checkpoint(run)
    put_checkpoint(run, "checkpoints/checkpoint-8", state=True)
    run.put("notes.txt")
    run.put("outcome.json")
    (run.out / "link").symlink_to("/etc/passwd")
    await run.artifacts.register(run.job, 1)
    found = await run.listing()
    assert "notes.txt" in [file["path"] for file in found["files"]]
    assert not {"link", "outcome.json"} & {file["path"] for file in found["files"]}
    first, second = found["checkpoints"]
    assert (first["step"], first["complete"], first["size"]) == (4, True, 152 + len(STATE))
    assert (second["step"], second["complete"]) == (8, False)
    assert "trainer_state.json" in second["problem"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"files": 1}', b"\xff", b'{"apiVersion":"tuneplane/artifacts/v1","job":"0000000000000000","attempt":1,"files":[]}'],
    ids=["empty", "cut", "list", "types", "bytes", "of another run"],
)  # fmt: skip
async def test_an_unusable_index_is_not_believed(run, content):
    run.put("real.bin")
    (run.out / "artifacts.json").write_bytes(content)
    await run.artifacts.register(run.job, 1)
    assert [file["path"] for file in (await run.listing())["files"]] == ["real.bin"]


async def test_an_index_that_is_a_link_is_not_followed(run, tmp_path):
    run.put("real.bin")
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text(
        json.dumps(
            {"apiVersion": "tuneplane/artifacts/v1", "job": run.job, "attempt": 1, "files": [{"path": "x", "size": 1}]}
        )
    )
    (run.out / "artifacts.json").symlink_to(elsewhere)
    await run.artifacts.register(run.job, 1)
    assert [file["path"] for file in (await run.listing())["files"]] == ["real.bin"]


async def test_paths_that_lead_out_are_left_out_of_the_index(run):
    bad = ["../../etc/passwd", "/etc/passwd", "a/../../b", "a\0b", "a\\..\\b", "", "x" * 2000]
    run.index(
        [{"path": path, "size": 1} for path in [*bad, "good.txt"]], [{"path": "../x", "step": 1, "complete": True}]
    )
    await run.artifacts.register(run.job, 1)
    found = await run.listing()
    assert [file["path"] for file in found["files"]] == ["good.txt"]
    assert found["checkpoints"] == []


@pytest.mark.parametrize("with_index", [True, False])
@pytest.mark.parametrize("link", ["checkpoints", "checkpoints/checkpoint-4"])
async def test_a_checkpoint_behind_a_link_is_nobodys_to_resume_from(run, tmp_path, link, with_index):
    """What a checkpoint's path points to is mounted into the next attempt."""
    put_checkpoint(run)
    elsewhere = tmp_path / "elsewhere"
    (run.out / link).rename(elsewhere)
    (run.out / link).symlink_to(elsewhere)
    if with_index:
        run.index([], [{"path": "checkpoints/checkpoint-4", "step": 4, "complete": True}])
    await run.artifacts.register(run.job, 1)
    assert await run.artifacts.checkpoints(run.job) == []
    assert (await run.listing())["checkpoints"] == []


async def test_an_out_dir_that_became_a_link_gives_nothing(run, tmp_path):
    run.put("a.bin", b"mine")
    await run.artifacts.register(run.job, 1)
    run.out.rename(tmp_path / "elsewhere")
    run.out.symlink_to(tmp_path / "elsewhere")
    assert (await run.file("a.bin")).status_code == 400


async def test_names_that_are_no_text_are_left_out_of_a_look(run):
    run.put("good.txt")
    run.put("bad-\udcff.bin")  # the byte 0xFF
    await run.artifacts.register(run.job, 1)
    assert [file["path"] for file in (await run.listing())["files"]] == ["good.txt"]


async def test_digests_are_completed_later_and_survive_another_registration(run):
    digests = {path: run.put(path, path.encode() * 1000) for path in ("a.bin", "dir/b.bin")}
    run.index([{"path": path, "size": len(path) * 1000} for path in digests])
    await run.artifacts.register(run.job, 1)
    assert await run.artifacts.unhashed(run.job, 1) == 2
    assert await run.artifacts.complete_hashes(run.job, 1) == 2
    assert {file["path"]: file["sha256"] for file in (await run.listing())["files"]} == digests
    await run.artifacts.register(run.job, 1)
    assert await run.artifacts.unhashed(run.job) == 0
    assert await run.artifacts.complete_hashes(run.job) == 0
    assert {file["path"]: file["sha256"] for file in (await run.listing())["files"]} == digests


async def test_a_digest_is_of_the_file_as_it_is_now(run):
    run.index([{"path": "a.bin", "size": 3}])
    digest = run.put("a.bin", b"longer than it was")
    await run.artifacts.register(run.job, 1)
    await run.artifacts.complete_hashes(run.job)
    (file,) = (await run.listing())["files"]
    assert (file["size"], file["sha256"]) == (18, digest)


async def test_files_that_cannot_be_hashed_hold_nothing_up(run):
    run.index([{"path": path, "size": 1} for path in ("gone", "link", "fifo", "dir", "below/link/x", "good")])
    (run.out / "link").symlink_to("/etc/passwd")
    os.mkfifo(run.out / "fifo")
    (run.out / "dir").mkdir()
    (run.out / "below").mkdir()
    (run.out / "below" / "link").symlink_to("/etc")
    digest = run.put("good", b"g")
    await run.artifacts.register(run.job, 1)
    assert await run.artifacts.complete_hashes(run.job) == 6
    hashed = {file["path"]: file["sha256"] for file in (await run.listing())["files"]}
    assert {path for path, sha256 in hashed.items() if sha256} == {"good"}
    assert hashed["good"] == digest
    assert await run.artifacts.unhashed(run.job) == 0


async def test_a_file_that_changes_while_it_is_hashed_gets_no_digest(run, monkeypatch):
    run.put("a.bin", b"x" * 100)
    run.index([{"path": "a.bin", "size": 100}])
    await run.artifacts.register(run.job, 1)
    read = os.read

    def growing(descriptor, size):
        block = read(descriptor, size)
        if not block:
            with (run.out / "a.bin").open("ab") as file:
                file.write(b"more")
        return block

    monkeypatch.setattr(files.os, "read", growing)
    await run.artifacts.complete_hashes(run.job)
    monkeypatch.undo()
    assert (await run.listing())["files"][0]["sha256"] is None


async def test_hashing_stops_when_it_is_cancelled_and_goes_on_later(run, monkeypatch):
    run.put("a.bin", b"x" * 100)
    run.index([{"path": "a.bin", "size": 100}])
    await run.artifacts.register(run.job, 1)
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    original = service.sha256_of

    def waits_to_be_stopped(out_dir, path, stop):
        loop.call_soon_threadsafe(begun.set)
        assert stop.wait(60)
        return original(out_dir, path, stop)

    monkeypatch.setattr(service, "sha256_of", waits_to_be_stopped)
    task = asyncio.create_task(run.artifacts.complete_hashes(run.job))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    monkeypatch.undo()
    assert await run.artifacts.unhashed(run.job) == 1
    assert await run.artifacts.complete_hashes(run.job) == 1


async def test_an_attempt_that_never_started_has_no_artifacts(run):
    await run.artifacts.register("0000000000000009", 1)
    await run.artifacts.register("../../../../x", 1)
    await run.artifacts.register(run.job, 7)
    assert await run.listing() == {
        "files": [], "checkpoints": [], "exports": [], "out_dir": None, "truncated": False,
    }  # fmt: skip


async def test_attempts_are_listed_side_by_side_and_forgotten_together(run):
    run.put("a.bin", b"one")
    await run.artifacts.register(run.job, 1)
    second = run.out.parents[1] / "2" / "out"
    second.mkdir(parents=True)
    (second / "a.bin").write_bytes(b"second")
    await run.artifacts.register(run.job, 2, second)
    found = await run.listing()
    assert [(file["attempt"], file["path"], file["size"]) for file in found["files"]] == [
        (1, "a.bin", 3),
        (2, "a.bin", 6),
    ]
    assert found["out_dir"] == str(second)
    assert (await run.file("a.bin")).content == b"second"
    assert (await run.file("a.bin", attempt=1)).content == b"one"
    await run.artifacts.forget(run.job)
    assert (await run.listing())["files"] == []
    assert (run.out / "a.bin").exists()
