"""How many files this process may have open: a console keeps a connection to every node that it speaks with."""

from __future__ import annotations

import resource

import structlog

log = structlog.get_logger(__name__)

WANTED = 65_536


def allow_open_files() -> int:
    """Raise what the process allows itself to what the machine allows it, up to `WANTED`; how many that is. The usual 1,024 are for
    programs that wait by select(2), and fewer than a thousand nodes need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft == resource.RLIM_INFINITY or soft >= allowed:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError) as error:
        log.warning("the limit of open files stays as it is", files=soft, why=str(error))
        return soft
    return allowed
