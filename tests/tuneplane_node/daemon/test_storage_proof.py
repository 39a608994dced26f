"""The same directory, or only one of the same name: real files, real mounts."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuneplane_node.daemon.file_lane import FileLane, StorageHangsError
from tuneplane_node.daemon.storage_proof import (
    IDENTITY_DIR,
    StorageProver,
    describe_storage,
    forget_proofs,
    prove_storage,
)
from tuneplane_node.engine import PROBLEMS
from tuneplane_node.wire import StorageChallenge, StorageProof

NODE = "0f0f0f0f-node"
NONCE = "c0ffee" * 8
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")


def challenge(root: Path, name: str = f"console-{NONCE}", nonce: str = NONCE) -> StorageChallenge:
    return StorageChallenge(str(root), f"{root}/{IDENTITY_DIR}/{name}", nonce)


def console_writes(root: Path, text: str = NONCE) -> StorageChallenge:
    """What a console does before it asks."""
    (root / IDENTITY_DIR).mkdir(parents=True, exist_ok=True)
    (root / IDENTITY_DIR / f"console-{NONCE}").write_text(text)
    return challenge(root)


def prove(asked: StorageChallenge, root: Path, looks: int = 1) -> StorageProof:
    return prove_storage(asked, root, NODE, looks=looks, pause=0.0)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[list[Path]]:
    """Mount points that a test made; they are gone afterwards."""
    places: list[Path] = []
    yield places
    for place in reversed(places):
        subprocess.run(["umount", "-l", str(place)], check=True, timeout=60)


def mount(places: list[Path], place: Path, *options: str) -> None:
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", *options, str(place)], check=True, timeout=60)
    places.append(place)


def test_the_same_directory_is_proved_both_ways(tmp_path: Path) -> None:
    proof = prove(console_writes(tmp_path), tmp_path)
    assert (proof.read, proof.problem, proof.writable) == (NONCE, "", True)
    assert Path(proof.node_file).read_text() == proof.node_nonce
    assert Path(proof.node_file).parent == tmp_path / IDENTITY_DIR
    assert len(proof.node_nonce) == 64
    assert Path(proof.node_file).stat().st_mode & 0o444 == 0o444, "the console may be another user"
    assert proof.device
    assert proof.fs_type


def test_each_proof_has_a_nonce_of_its_own(tmp_path: Path) -> None:
    asked = console_writes(tmp_path)
    assert prove(asked, tmp_path).node_nonce != prove(asked, tmp_path).node_nonce


@needs_root
def test_one_directory_at_two_places_is_the_same(tmp_path: Path, mounted: list[Path]) -> None:
    """The console's view and the node's are two mounts of one export."""
    mount(mounted, tmp_path / "console", "-t", "tmpfs", "shared")
    mount(mounted, tmp_path / "node", "--bind", str(tmp_path / "console"))
    console_writes(tmp_path / "console")
    proof = prove(challenge(tmp_path / "node"), tmp_path / "node")
    assert (proof.read, proof.problem) == (NONCE, "")
    assert (tmp_path / "console" / IDENTITY_DIR / Path(proof.node_file).name).read_text() == proof.node_nonce
    assert (proof.fs_type, proof.source) == ("tmpfs", "shared")


@needs_root
def test_another_mount_under_the_same_name_is_told_and_nothing_is_put_there(
    tmp_path: Path, mounted: list[Path]
) -> None:
    root = tmp_path / "shared"
    asked = console_writes(root)
    mount(mounted, root, "-t", "tmpfs", "another-export")
    proof = prove(asked, root)
    assert (proof.read, proof.problem, proof.node_file) == (None, "storage-other", "")
    assert (proof.fs_type, proof.source) == ("tmpfs", "another-export")
    assert list(root.iterdir()) == [], "it may be anybody's directory"


def test_a_directory_of_the_same_name_with_other_proofs_in_it_is_told(tmp_path: Path) -> None:
    proof = prove(console_writes(tmp_path, "the nonce of another console"), tmp_path)
    assert (proof.read, proof.problem) == (None, "storage-other")
    assert "holds something else" in proof.detail


def test_a_missing_root_is_told(tmp_path: Path) -> None:
    root = tmp_path / "not-mounted"
    proof = prove(challenge(root), root)
    assert (proof.read, proof.problem, proof.writable) == (None, "storage-missing", False)


@needs_root
def test_a_read_only_mount_is_told_although_the_console_s_file_is_there(tmp_path: Path, mounted: list[Path]) -> None:
    asked = console_writes(tmp_path / "shared")
    mount(mounted, tmp_path / "shared", "--bind", str(tmp_path / "shared"))
    subprocess.run(["mount", "-o", "remount,bind,ro", str(tmp_path / "shared")], check=True, timeout=60)
    proof = prove(asked, tmp_path / "shared")
    assert (proof.read, proof.problem, proof.node_file, proof.writable) == (NONCE, "storage-read-only", "", False)


def test_the_console_s_path_has_to_be_ours(tmp_path: Path) -> None:
    console_writes(tmp_path / "a")
    proof = prove(challenge(tmp_path / "a"), tmp_path / "b")
    assert proof.problem == "storage-root-differs"
    assert proof.detail == str(tmp_path / "a")


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        f"console-{NONCE}/../../secret",
        "node-x-00",
        "console-",
        "console-" + "A" * 16,
        f"console-{NONCE}\0",
    ],
)
def test_only_a_console_s_own_file_is_read(name: str, tmp_path: Path) -> None:
    (tmp_path / IDENTITY_DIR).mkdir()
    proof = prove(challenge(tmp_path, name), tmp_path)
    assert (proof.read, proof.problem) == (None, "storage-challenge")


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(NONCE)
    (tmp_path / IDENTITY_DIR).mkdir()
    (tmp_path / IDENTITY_DIR / f"console-{NONCE}").symlink_to(tmp_path / "secret")
    proof = prove(challenge(tmp_path), tmp_path)
    assert (proof.read, proof.problem) == (None, "storage-unusable")


def test_a_link_in_the_place_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    console_writes(tmp_path / "elsewhere")
    root = tmp_path / "shared"
    root.mkdir()
    (root / IDENTITY_DIR).symlink_to(tmp_path / "elsewhere" / IDENTITY_DIR)
    assert prove(challenge(root), root).problem == "storage-unusable"


def test_a_large_or_odd_file_is_not_read(tmp_path: Path) -> None:
    asked = console_writes(tmp_path, "x" * 10_000)
    assert prove(asked, tmp_path).problem == "storage-challenge"
    (tmp_path / IDENTITY_DIR / f"console-{NONCE}").unlink()
    os.mkfifo(tmp_path / IDENTITY_DIR / f"console-{NONCE}")
    assert prove(asked, tmp_path).problem == "storage-challenge", "a fifo must not hold us either"


def test_a_file_that_shows_late_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on NFS, whose client believes its copy of a directory for some seconds."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            console_writes(tmp_path)

    monkeypatch.setattr("tuneplane_node.daemon.storage_proof.time.sleep", pause)
    proof = prove_storage(challenge(tmp_path), tmp_path, NODE, looks=6, pause=1.0)
    assert (proof.read, proof.problem, pauses) == (NONCE, "", [1.0, 1.0])


def test_every_answer_has_a_sentence() -> None:
    codes = {code for code in PROBLEMS if code.startswith("storage-")}
    assert {
        "storage-missing",
        "storage-unusable",
        "storage-read-only",
        "storage-other",
        "storage-root-differs",
    } <= codes


async def test_what_earlier_challenges_left_is_removed_and_what_others_wrote_stays(tmp_path: Path) -> None:
    asked = console_writes(tmp_path)
    old = Path(prove(asked, tmp_path).node_file)
    other = tmp_path / IDENTITY_DIR / f"node-another-node-{'0' * 16}"
    other.write_text("x")
    prover = StorageProver(tmp_path, NODE)
    first = Path((await prover.prove(asked)).node_file)
    second = Path((await prover.prove(asked)).node_file)
    left = {path.name for path in (tmp_path / IDENTITY_DIR).iterdir()}
    assert old.name not in left, "of a daemon that was here before"
    assert {first.name, second.name} <= left, "another console may just be looking for the first"
    assert forget_proofs(tmp_path, NODE, older_than_seconds=3600) == 0
    assert forget_proofs(tmp_path, NODE) == 2
    assert sorted(path.name for path in (tmp_path / IDENTITY_DIR).iterdir()) == [f"console-{NONCE}", other.name]


async def test_a_mount_that_hangs_is_an_answer_and_takes_no_more_than_its_threads(tmp_path: Path) -> None:
    go = threading.Event()
    lane = FileLane(seconds=0.05, most=1)
    with pytest.raises(StorageHangsError, match="no answer within"):
        await lane.run(go.wait, 60)
    proof = await StorageProver(tmp_path, NODE, lane=lane).prove(console_writes(tmp_path))
    assert (proof.read, proof.problem) == (None, "storage-unusable")
    assert "still hang" in proof.detail
    assert lane.busy == 1
    go.set()


async def test_a_lane_hands_on_what_its_work_says() -> None:
    def fails() -> None:
        raise ValueError("its own words")

    lane = FileLane(seconds=60.0)
    assert await lane.run(lambda value: value + 1, 41) == 42
    with pytest.raises(ValueError, match="its own words"):
        await lane.run(fails)
    assert lane.busy == 0


def test_the_deepest_mount_is_named_with_the_part_that_is_shown(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    place = os.path.realpath(tmp_path)
    escaped = place.replace(" ", "\\040")
    table.write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        f"2 1 0:50 /exports/team {escaped} rw,relatime shared:7 - nfs4 nas:/vol0/team\\040one rw\n"
        f"3 1 0:51 / {escaped}x rw - tmpfs tmpfs rw\n"
        "nonsense\n"
    )
    side = describe_storage(tmp_path, table)
    assert (side.fs_type, side.source) == ("nfs4", "nas:/vol0/team one[/exports/team]")
    assert side.writable
    assert describe_storage(tmp_path, tmp_path / "none").fs_type == ""
    gone = describe_storage(tmp_path / "gone")
    assert (gone.device, gone.writable) == ("", False)
    assert gone.hostname
