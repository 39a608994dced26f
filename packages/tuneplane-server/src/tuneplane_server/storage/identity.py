"""Prove that a node's storage root is the console's own directory: by what is written there, not by its name.

The console writes `<root>/.tuneplane-identity/console-<nonce>`, the node reads it under the same path and answers with a file of its
own, which has to be found here. Both are removed. The node's side: `tuneplane_node.daemon.storage_proof`.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneplane_node.daemon.file_lane import FileLane, StorageHangsError
from tuneplane_node.daemon.storage_proof import IDENTITY_DIR, MAX_PROOF_BYTES, StorageSide, describe_storage
from tuneplane_node.wire import StorageChallenge, StorageProof

ROOT_OF_CONSOLE = "storage-console"  # the console's own storage root cannot be used: says nothing about the node
OTHER = "storage-other"
LOOKS, PAUSE_SECONDS = 6, 1.0  # an NFS client believes for a moment that a file is not there
LANE_SECONDS = 15.0
LEFT_SECONDS = 3600.0  # what a killed console left is older than any proof
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW

type Ask = Callable[[StorageChallenge], Awaitable[StorageProof]]


@dataclass(frozen=True)
class ProofProblem:
    """Why a node's storage root is not proved. `values` fill the code's sentences, see `features.nodes.texts` and the node's table."""

    code: str
    values: dict[str, Any]
    detail: str = ""


class StorageIdentity:
    """Of one storage root. A mount whose server is gone hangs a thread of its own, and no other."""

    def __init__(self, root: Path, *, looks: int = LOOKS, pause: float = PAUSE_SECONDS) -> None:
        self._root, self._looks, self._pause = root, looks, pause
        self._lane = FileLane(LANE_SECONDS)

    async def prove(self, ask: Ask) -> ProofProblem | None:
        """None when node and console see one directory. Raises what `ask` raises."""
        nonce = secrets.token_hex(32)
        name = f"console-{secrets.token_hex(16)}"
        try:
            mine = await self._lane.run(self._write, name, nonce)
        except (OSError, StorageHangsError) as error:
            return ProofProblem(ROOT_OF_CONSOLE, {"path": str(self._root)}, str(error))
        try:
            proof = await ask(StorageChallenge(str(self._root), str(self._root / IDENTITY_DIR / name), nonce))
            return await self._judged(mine, proof, nonce)
        finally:
            await self._forget(name)

    async def _judged(self, mine: StorageSide, proof: StorageProof, nonce: str) -> ProofProblem | None:
        if proof.problem and proof.problem != OTHER:
            return ProofProblem(proof.problem, _values(mine, proof), proof.detail)
        if proof.problem or proof.read != nonce:
            return ProofProblem(OTHER, _values(mine, proof), proof.detail)
        try:
            found = await self._lane.run(self._find, proof)
        except (OSError, StorageHangsError) as error:
            return ProofProblem(ROOT_OF_CONSOLE, {"path": str(self._root)}, str(error))
        return None if found else ProofProblem(OTHER, _values(mine, proof), f"{proof.node_file} is not here")

    # --- in threads -----------------------------------------------------------------------------------------------

    def _write(self, name: str, nonce: str) -> StorageSide:
        """Nodes run as other users: they may write here beside us, and remove only what is theirs."""
        place = self._root / IDENTITY_DIR
        if not place.is_dir():
            place.mkdir(mode=0o700, exist_ok=True)
            place.chmod(0o1777)
        self._forget_left(place)
        directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY | _FLAGS)
        try:
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o644, dir_fd=directory)
            try:
                os.fchmod(file, 0o644)
                os.write(file, nonce.encode())
                os.fsync(file)
            finally:
                os.close(file)
            os.fsync(directory)
        finally:
            os.close(directory)
        return describe_storage(self._root)

    def _forget_left(self, place: Path) -> None:
        oldest = time.time() - LEFT_SECONDS
        for entry in os.scandir(place):
            if not entry.name.startswith(("console-", "node-")):
                continue
            try:
                if entry.stat(follow_symlinks=False).st_mtime < oldest:
                    _remove(Path(entry.path))
            except FileNotFoundError:
                continue  # another proof has ended meanwhile

    def _find(self, proof: StorageProof) -> bool:
        """Whether the node's own file is here with what it says; it is removed when it may be."""
        path = Path(proof.node_file)
        if path.parent != self._root / IDENTITY_DIR or not path.name.startswith("node-") or not proof.node_nonce:
            return False
        for number in range(self._looks):
            if number:
                time.sleep(self._pause)
            list(path.parent.iterdir())  # has an NFS client ask the server what is there
            if _read(path) == proof.node_nonce:
                _remove(path)
                return True
        return False

    async def _forget(self, name: str) -> None:
        try:
            await self._lane.run(_remove, self._root / IDENTITY_DIR / name)
        except (OSError, StorageHangsError):
            return  # the next proof removes what is old


def _read(path: Path) -> str | None:
    """The text of a small plain file, None for anything else. Raises OSError when the disk cannot be asked."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _FLAGS)
    except (FileNotFoundError, PermissionError):
        return None
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_PROOF_BYTES:
            return None
        return os.read(file, MAX_PROOF_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(file)


def _remove(path: Path) -> None:
    """What another user wrote on a squashed export stays: its writer removes it."""
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        return


def _values(mine: StorageSide, proof: StorageProof) -> dict[str, Any]:
    theirs = StorageSide(proof.root, proof.device, proof.fs_type, proof.source, proof.hostname)
    return {
        "console": _side(mine),
        "node": _side(theirs),
        "host": proof.hostname,
        "path": proof.root,
        "device": proof.device,
        "fs_type": proof.fs_type,
        "source": proof.source,
    }


def _side(side: StorageSide) -> str:
    """`gpu-1:/data/tuneplane (nfs4 nas:/export, device 0:52)`"""
    disk = " ".join(part for part in (side.fs_type, side.source) if part) or "?"
    return f"{side.hostname}:{side.root} ({disk}, device {side.device or '?'})"
