"""Which filesystem a path lies on. SQLite's locks are not sound on network filesystems, so it is refused there."""

from __future__ import annotations

import re
from pathlib import Path

from tuneplane.i18n import _

MOUNTINFO = Path("/proc/self/mountinfo")
_NETWORK = re.compile(
    r"(nfs[0-9]*|cifs|smb[0-9]*|smbfs|lustre|ceph|gpfs|beegfs[\w-]*|afs|9p|glusterfs|ocfs2|gfs2|pvfs2|orangefs|panfs"
    r"|virtiofs|wekafs|fuse|fuse\..*|fuseblk)\Z"
)


class NetworkFilesystemError(Exception):
    """SQLite was asked for on a network filesystem; the message names the way out."""


def refuse_network_filesystem(database: Path, mountinfo: str | None = None) -> None:
    """Raises `NetworkFilesystemError` when `database` (it need not exist) lies on a network filesystem."""
    text = MOUNTINFO.read_text(encoding="utf-8", errors="replace") if mountinfo is None else mountinfo
    kind = filesystem_of(database, text)
    if _NETWORK.match(kind):
        raise NetworkFilesystemError(
            _(
                "SQLite cannot be used on {path}: {kind} does not keep its locks. Set TUNEPLANE_DATA_DIR to a directory on a "
                "local disk, or TUNEPLANE_DATABASE_URL to a Postgres database."
            ).format(path=database.parent, kind=kind)
        )


def filesystem_of(path: Path, mountinfo: str) -> str:
    """Type of the filesystem `path` lies on, from the text of /proc/self/mountinfo (proc(5)); `unknown` when absent."""
    best, kind = -1, "unknown"
    resolved = path.resolve()
    for line in mountinfo.splitlines():
        left, _dash, right = line.partition(" - ")
        fields, tail = left.split(" "), right.split(" ")
        if len(fields) < 5 or not tail[0]:
            continue
        mount = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4]))
        # A later line covers an earlier one at the same place.
        if resolved.is_relative_to(mount) and len(mount.parts) >= best:
            best, kind = len(mount.parts), tail[0]
    return kind
