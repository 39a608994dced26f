"""The console's side of the proof that a storage root is the same directory, against the node's real side."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tuneplane_node.daemon.storage_proof import IDENTITY_DIR, prove_storage
from tuneplane_node.wire import StorageChallenge, StorageProof
from tuneplane_server.storage.identity import LEFT_SECONDS, ROOT_OF_CONSOLE, StorageIdentity


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    return path


def identity(root: Path) -> StorageIdentity:
    return StorageIdentity(root, looks=1, pause=0)


def left(root: Path) -> list[str]:
    return sorted(path.name for path in (root / IDENTITY_DIR).iterdir())


async def test_the_same_directory_is_proved_and_nothing_is_left(root: Path) -> None:
    async def ask(challenge: StorageChallenge) -> StorageProof:
        return prove_storage(challenge, root, "node-a", looks=1, pause=0)

    assert await identity(root).prove(ask) is None
    assert left(root) == []
    assert (root / IDENTITY_DIR).stat().st_mode & 0o7777 == 0o1777  # nodes are other users


async def test_another_directory_under_the_same_name_names_both_sides(root: Path, tmp_path: Path) -> None:
    """As on a node where the path is another disk: what the console wrote is not there."""
    other = tmp_path / "other"
    (other / IDENTITY_DIR).mkdir(parents=True)

    async def ask(challenge: StorageChallenge) -> StorageProof:
        there = StorageChallenge(str(other), challenge.console_file.replace(str(root), str(other)), challenge.nonce)
        return replace(prove_storage(there, other, "node-a", looks=1, pause=0), hostname="gpu-9", root=str(root))

    problem = await identity(root).prove(ask)
    assert problem is not None
    assert problem.code == "storage-other"
    assert f"gpu-9:{root}" in problem.values["node"]
    assert f"{os.uname().nodename}:{root}" in problem.values["console"]
    assert left(root) == left(other) == []


@pytest.mark.parametrize(
    "node_file", ["", "node-x", "/etc/hostname", "../../etc/hostname", f"{IDENTITY_DIR}/../../node-x", "console-1"]
)
async def test_a_file_that_the_node_did_not_write_here_proves_nothing(root: Path, node_file: str) -> None:
    async def ask(challenge: StorageChallenge) -> StorageProof:
        return StorageProof(read=challenge.nonce, node_file=node_file, node_nonce="x", root=str(root))

    problem = await identity(root).prove(ask)
    assert problem is not None
    assert problem.code == "storage-other"


async def test_a_link_of_the_nodes_name_is_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("nonce")

    async def ask(challenge: StorageChallenge) -> StorageProof:
        file = root / IDENTITY_DIR / "node-a-1"
        file.symlink_to(tmp_path / "secret")
        return StorageProof(read=challenge.nonce, node_file=str(file), node_nonce="nonce", root=str(root))

    problem = await identity(root).prove(ask)
    assert problem is not None
    assert (tmp_path / "secret").read_text() == "nonce"


async def test_what_the_node_says_is_wrong_is_kept(root: Path) -> None:
    async def ask(_challenge: StorageChallenge) -> StorageProof:
        return StorageProof(problem="storage-read-only", root=str(root), hostname="gpu-9", detail="EROFS")

    problem = await identity(root).prove(ask)
    assert problem is not None
    assert (problem.code, problem.values["host"], problem.detail) == ("storage-read-only", "gpu-9", "EROFS")
    assert left(root) == []


async def test_a_console_without_its_storage_blames_no_node(tmp_path: Path) -> None:
    async def ask(_challenge: StorageChallenge) -> StorageProof:
        raise AssertionError("nothing to ask for")

    problem = await identity(tmp_path / "gone").prove(ask)
    assert problem is not None
    assert problem.code == ROOT_OF_CONSOLE


async def test_what_killed_ones_left_goes_and_what_is_new_stays(root: Path) -> None:
    async def ask(challenge: StorageChallenge) -> StorageProof:
        return prove_storage(challenge, root, "node-a", looks=1, pause=0)

    place = root / IDENTITY_DIR
    place.mkdir()
    for name in ("console-old", "node-old", "console-new", "a-file-of-somebody"):
        (place / name).write_text("x")
        if not name.endswith("new"):
            before = time.time() - LEFT_SECONDS - 60
            os.utime(place / name, (before, before))
    assert await identity(root).prove(ask) is None
    assert left(root) == ["a-file-of-somebody", "console-new"]
