"""Prove that a path is the same directory here as on the console: by what was written there, not by its name.

The console writes `<root>/.tuneplane-identity/console-<nonce>`; we read it under the same path and write a file of our own
there, which the console has to find. A directory of the same name on another disk passes neither way.

On NFS a file that another machine made may be hidden for as long as the client believes its
cached directory (`acdirmax`, 60 s by default; usually 3 s): listing the directory anew asks the server again, so that a few looks
are enough. A mount whose server is gone hangs whoever touches it, see `file_lane`.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import socket
import stat
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tuneplane_node.daemon.file_lane import FileLane, StorageHangsError
from tuneplane_node.wire import StorageChallenge, StorageProof

IDENTITY_DIR = ".tuneplane-identity"
MAX_PROOF_BYTES = 4096
LOOKS, PAUSE_SECONDS = 6, 1.0
PROOF_SECONDS = 15.0
KEEP_SECONDS = 600.0
MOUNTS = Path("/proc/self/mountinfo")
_CONSOLE_FILE = re.compile(r"console-[0-9a-f]{16,128}\Z", re.ASCII)
_NODE_ID = re.compile(r"[A-Za-z0-9-]{1,64}\Z", re.ASCII)
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class StorageSide:
    """What lies under a path on this machine. `device`: `major:minor`; `source`: what is mounted (`nas:/export`, `/dev/sda1`)
    with the part of it that is shown in brackets when it is not the whole. Empty where it cannot be told."""

    root: str
    device: str = ""
    fs_type: str = ""
    source: str = ""
    hostname: str = ""
    writable: bool = False


class StorageRefusedError(Exception):
    """The answer is no. `code` is of the engine's table; `detail` the system's own words."""

    def __init__(self, code: str, detail: str) -> None:
        self.code, self.detail = code, detail
        super().__init__(f"{code}: {detail}")


class StorageProver:
    """This node's answers to the console's challenges. `root`: its storage root."""

    def __init__(self, root: Path, node_id: str, *, lane: FileLane | None = None) -> None:
        self._root, self._node_id = root, node_id
        self._lane = lane or FileLane(PROOF_SECONDS, most=2)
        self._written: dict[str, float] = {}  # name of a file of ours -> when, on a clock that never steps

    async def prove(self, challenge: StorageChallenge) -> StorageProof:
        """As `prove_storage`, also where the mount hangs. What earlier challenges left of ours is removed, unless another
        console may just be looking for it."""
        try:
            return await self._lane.run(self._prove, challenge)
        except StorageHangsError as problem:
            return StorageProof(
                root=str(self._root),
                hostname=socket.gethostname(),
                detail=f"{self._root}: {problem}",
                problem="storage-unusable",
            )

    def _prove(self, challenge: StorageChallenge) -> StorageProof:
        now = time.monotonic()
        self._written = {name: at for name, at in self._written.items() if now - at < KEEP_SECONDS}
        forget_proofs(self._root, self._node_id, keep=set(self._written))
        proof = prove_storage(challenge, self._root, self._node_id)
        if proof.node_file:
            self._written[Path(proof.node_file).name] = time.monotonic()
        return proof


def prove_storage(
    challenge: StorageChallenge, root: Path, node_id: str, *, looks: int = LOOKS, pause: float = PAUSE_SECONDS
) -> StorageProof:
    """Read the console's file, write our own, say what is under `root` (this node's storage root). Never raises for what is
    wrong with the storage: `problem` holds the code then. `looks` times, `pause` seconds apart, for caches of file attributes.
    Nothing is made where the console's file is not: that may be anybody's directory. Blocking."""
    side = describe_storage(root)
    read, node_file, nonce, code, detail = None, "", secrets.token_hex(32), "", ""
    try:
        name = _checked_name(challenge, root)
        read = _patient_read(root, name, challenge.nonce, looks, pause)
        with _Directory(root) as directory:
            node_file = str(root / IDENTITY_DIR / directory.write(f"node-{_checked_id(node_id)}-", nonce))
    except StorageRefusedError as refusal:
        code, detail = refusal.code, refusal.detail
    return StorageProof(
        read=read,
        node_file=node_file,
        node_nonce=nonce if node_file else "",
        root=side.root,
        device=side.device,
        fs_type=side.fs_type,
        source=side.source,
        hostname=side.hostname,
        writable=side.writable and code != "storage-read-only",
        detail=detail,
        problem=code,
    )


def forget_proofs(root: Path, node_id: str, keep: Collection[str] = (), older_than_seconds: float = 0.0) -> int:
    """Remove the files that this node wrote as a proof, but those named in `keep` and younger ones; how many. Files of others
    stay. Blocking."""
    mine, gone = f"node-{_checked_id(node_id)}-", 0
    try:
        with _Directory(root) as directory:
            for name in directory.names():
                if name.startswith(mine) and name not in keep and directory.age(name) >= older_than_seconds:
                    gone += directory.remove(name)
    except StorageRefusedError:
        return gone  # nothing can be written there, so there is nothing of ours
    return gone


def describe_storage(root: Path, mounts: Path = MOUNTS) -> StorageSide:
    """Who lies under `root`, from the kernel's own table of mounts; as far as it can be told."""
    hostname = socket.gethostname()
    try:
        found = root.stat()
    except OSError:
        return StorageSide(str(root), hostname=hostname)
    device = f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}"
    fs_type, source = _mount_of(root, mounts)
    return StorageSide(str(root), device, fs_type, source, hostname, os.access(root, os.W_OK | os.X_OK))


class _Directory:
    """The directory of the proofs, held open: every file is named from it, so that nobody can put a link in the way."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._descriptor = -1

    def __enter__(self) -> _Directory:
        try:
            top = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as problem:
            raise StorageRefusedError("storage-missing", str(problem)) from problem
        except OSError as problem:
            raise StorageRefusedError("storage-unusable", str(problem)) from problem
        try:
            self._descriptor = os.open(IDENTITY_DIR, os.O_RDONLY | os.O_DIRECTORY | _FLAGS, dir_fd=top)
        except FileNotFoundError:
            raise StorageRefusedError("storage-other", f"there is no {IDENTITY_DIR} in {self._root}") from None
        except OSError as problem:
            raise _refusal(problem) from problem
        finally:
            os.close(top)
        return self

    def __exit__(self, *_exc: object) -> None:
        os.close(self._descriptor)

    def names(self) -> list[str]:
        try:
            return os.listdir(self._descriptor)  # noqa: PTH208 - of the directory that is held open
        except OSError as problem:
            raise _refusal(problem) from problem

    def read(self, name: str) -> str | None:
        """The text of a small plain file; None when there is none of that name. Raises for anything else."""
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _FLAGS, dir_fd=self._descriptor)
        except FileNotFoundError:
            return None
        except OSError as problem:
            if problem.errno == errno.ESTALE:
                return None  # another file had the name a moment ago: looked at again
            raise _refusal(problem) from problem
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_PROOF_BYTES:
                raise StorageRefusedError("storage-challenge", f"{name} is no small plain file")
            return os.read(descriptor, MAX_PROOF_BYTES).decode("ascii", "replace").strip()
        except OSError as problem:
            raise _refusal(problem) from problem
        finally:
            os.close(descriptor)

    def write(self, prefix: str, text: str) -> str:
        """A new file with this text, on the server when we return; its name."""
        name = f"{prefix}{secrets.token_hex(8)}"
        try:
            # World-readable: the console is often another user, on NFS perhaps a squashed root. It holds no secret.
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o644, dir_fd=self._descriptor)
            try:
                os.fchmod(descriptor, 0o644)  # whatever the umask says
                os.write(descriptor, text.encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.fsync(self._descriptor)
        except OSError as problem:
            raise _refusal(problem) from problem
        return name

    def age(self, name: str) -> float:
        """Seconds by this machine's clock; a file server's may differ, so that only hours tell something."""
        try:
            return max(0.0, time.time() - os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mtime)
        except OSError:
            return 0.0

    def remove(self, name: str) -> bool:
        try:
            os.unlink(name, dir_fd=self._descriptor)
        except FileNotFoundError:
            return False
        except OSError as problem:
            raise _refusal(problem) from problem
        return True


def _patient_read(root: Path, name: str, nonce: str, looks: int, pause: float) -> str:
    """The console's nonce. Raises StorageRefusedError when it is not there after so many looks."""
    refusal = StorageRefusedError("storage-other", f"there is no {IDENTITY_DIR}/{name}")
    for number in range(looks):
        if number:
            time.sleep(pause)
        try:
            with _Directory(root) as directory:
                directory.names()  # has an NFS client ask the server what is there
                text = directory.read(name)
        except StorageRefusedError as problem:
            if problem.code != "storage-other":
                raise
            refusal = problem
            continue
        if text == nonce:
            return text
        if text is not None:
            refusal = StorageRefusedError("storage-other", f"{IDENTITY_DIR}/{name} holds something else")
    raise refusal


def _checked_name(challenge: StorageChallenge, root: Path) -> str:
    """The console's file, which can be nothing but one of its own kind in the directory of the proofs."""
    if os.path.normpath(challenge.root) != os.path.normpath(root):
        raise StorageRefusedError("storage-root-differs", challenge.root[:500])
    folder, _slash, name = challenge.console_file.rpartition("/")
    if folder != str(root / IDENTITY_DIR) or _CONSOLE_FILE.match(name) is None:
        raise StorageRefusedError("storage-challenge", challenge.console_file[:500])
    if not challenge.nonce or len(challenge.nonce) > MAX_PROOF_BYTES:
        raise StorageRefusedError("storage-challenge", f"a nonce of {len(challenge.nonce)} characters")
    return name


def _checked_id(node_id: str) -> str:
    if _NODE_ID.match(node_id) is None:
        raise ValueError(f"no id of a node: {node_id[:80]!r}")
    return node_id


def _refusal(problem: OSError) -> StorageRefusedError:
    return StorageRefusedError(
        "storage-read-only" if problem.errno == errno.EROFS else "storage-unusable", str(problem)
    )


def _mount_of(root: Path, mounts: Path) -> tuple[str, str]:
    """(file system type, what is mounted) of the mount that `root` is on. Format: proc_pid_mountinfo(5)."""
    try:
        path = os.path.realpath(root, strict=True)
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return "", ""
    best, found = -1, ("", "")
    for line in lines:
        left, dash, right = line.partition(" - ")
        fields, kind = left.split(" "), right.split(" ")
        if not dash or len(fields) < 5 or len(kind) < 2:
            continue
        place = _unescaped(fields[4])
        inside = path == place or path.startswith(place.rstrip("/") + "/")
        if inside and len(place) >= best:  # of two on one place the later one covers the other
            shown = _unescaped(fields[3])
            source = _unescaped(kind[1]) + (f"[{shown}]" if shown != "/" else "")
            best, found = len(place), (kind[0], source)
    return found


def _unescaped(text: str) -> str:
    """The kernel writes blanks and backslashes of a path as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
