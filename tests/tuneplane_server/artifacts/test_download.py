"""One file over HTTP: whole, in ranges, conditional; and every way out of the out dir is closed (scenario 29)."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from tests.tuneplane_server.artifacts.conftest import Run
from tests.tuneplane_server.harness import ON_SQLITE

pytestmark = ON_SQLITE
CONTENT = bytes(range(256)) * 2000  # more than one block


@pytest.fixture
async def stored(run: Run) -> str:
    """`model.bin` with its digest."""
    digest = run.put("model.bin", CONTENT)
    run.index([{"path": "model.bin", "size": len(CONTENT), "sha256": digest}])
    await run.artifacts.register(run.job, 1)
    return digest


async def test_a_whole_file_with_its_digest(run, stored):
    answer = await run.file("model.bin")
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert answer.headers["etag"] == f'"{stored}"'
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert base64.b64decode(answer.headers["repr-digest"].split(":")[1]).hex() == stored
    head = await run.file("model.bin", "HEAD")
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(CONTENT)))


async def test_ranges(run, stored):
    size = len(CONTENT)
    for header, first, stop in (
        ("bytes=0-0", 0, 1),
        ("bytes=100-199", 100, 200),
        (f"bytes={size - 1}-", size - 1, size),
        ("bytes=300000-", 300_000, size),
        ("bytes=-10", size - 10, size),
        ("bytes=0-99999999", 0, size),
    ):
        answer = await run.file("model.bin", Range=header)
        assert (answer.status_code, answer.content) == (206, CONTENT[first:stop]), header
        assert answer.headers["content-range"] == f"bytes {first}-{stop - 1}/{size}"
        assert answer.headers["content-length"] == str(stop - first)
    beyond = await run.file("model.bin", Range=f"bytes={size}-")
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")
    for ignored in ("bytes=1-2,5-6", "lines=1-2", "bytes=9-1"):
        assert (await run.file("model.bin", Range=ignored)).status_code == 200


async def test_conditions(run, stored):
    etag = f'"{stored}"'
    for known in (etag, f"W/{etag}", f'"x", {etag}', "*"):
        answer = await run.file("model.bin", If_None_Match=known)
        assert (answer.status_code, answer.content) == (304, b""), known
    assert (await run.file("model.bin", If_None_Match='"other"')).status_code == 200
    assert (await run.file("model.bin", Range="bytes=0-9", If_Range=etag)).status_code == 206
    changed = await run.file("model.bin", Range="bytes=0-9", If_Range='"an older one"')
    assert (changed.status_code, len(changed.content)) == (200, len(CONTENT))


async def test_a_file_that_is_not_the_one_that_was_hashed_claims_no_digest(run, stored):
    run.put("model.bin", b"something else")
    answer = await run.file("model.bin")
    assert answer.content == b"something else"
    assert answer.headers["etag"].startswith('W/"')
    assert "repr-digest" not in answer.headers
    # A weak tag is no proof that a part belongs to the rest.
    part = await run.file("model.bin", Range="bytes=0-3", If_Range=answer.headers["etag"])
    assert part.status_code == 200


async def test_an_empty_file(run):
    run.put("empty", b"")
    await run.artifacts.register(run.job, 1)
    assert (await run.file("empty")).content == b""
    assert (await run.file("empty", Range="bytes=0-")).status_code == 416


async def test_only_registered_files_are_given(run, stored):
    run.put("secret.env", b"KEY=1")
    answer = await run.file("secret.env")
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
    assert (await run.file("model.bin", attempt=2)).status_code == 404
    (run.out / "model.bin").unlink()
    assert (await run.file("model.bin")).status_code == 404


async def test_tricks_with_paths_are_refused_and_audited(run, stored):
    tricks = [
        "../../../../../../etc/passwd",
        "/etc/passwd",
        "model.bin/../model.bin",
        "./model.bin",
        "..\\..\\model.bin",
        "model.bin\n",
        "%2e%2e/%2e%2e/etc/passwd",
        "%252e%252e%252fetc%252fpasswd",
        "..%5c..%5cmodel.bin",
        "",
        "x" * 1025,
    ]
    for trick in tricks:
        answer = await run.file(trick)
        assert (answer.status_code, answer.json()["code"]) == (400, "request-invalid"), trick
    entries = await run.console.services.audit.newest()
    assert [entry.data["path"] for entry in reversed(entries) if entry.action == "artifact.refuse"] == [
        trick[:400] for trick in tricks
    ]
    assert {entry.actor for entry in entries if entry.action == "artifact.refuse"} == {"ada"}
    nul = await run.client.get(f"/api/v1/jobs/{run.job}/artifacts/file?path=a%00b")
    assert nul.status_code == 400


@pytest.mark.parametrize("kind", ["file", "directory", "dangling", "inside"])
async def test_links_put_there_after_registration_are_not_followed(run, kind, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.bin").write_bytes(b"secret")
    run.put("dir/a.bin", b"mine")
    run.put("other.bin", b"mine too")
    await run.artifacts.register(run.job, 1)
    (run.out / "dir" / "a.bin").unlink()
    if kind == "directory":
        (run.out / "dir").rmdir()
        (run.out / "dir").symlink_to(outside)
    else:
        target = {"file": outside / "a.bin", "dangling": outside / "gone", "inside": run.out / "other.bin"}[kind]
        (run.out / "dir" / "a.bin").symlink_to(target)
    answer = await run.file("dir/a.bin")
    assert (answer.status_code, answer.json()["code"]) == (400, "request-invalid")
    assert b"secret" not in answer.content
    assert [entry.action for entry in await run.console.services.audit.newest(limit=1)] == ["artifact.refuse"]


async def test_a_fifo_does_not_hold_the_console_up(run):
    run.put("pipe")
    await run.artifacts.register(run.job, 1)
    (run.out / "pipe").unlink()
    os.mkfifo(run.out / "pipe")
    assert (await run.file("pipe")).status_code == 404


async def test_descriptors_are_closed_whatever_happens(run, stored):
    def open_files() -> list[str]:
        return [target for target in map(_target, Path("/proc/self/fd").iterdir()) if target.startswith(str(run.out))]

    for headers in ({}, {"Range": "bytes=1-5"}, {"Range": "bytes=999999999-"}, {"If-None-Match": "*"}):
        await run.client.get(f"/api/v1/jobs/{run.job}/artifacts/file", params={"path": "model.bin"}, headers=headers)
    await run.file("../x")
    assert open_files() == []


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except OSError:  # closed meanwhile
        return ""
