"""Run ids as people type them: the full one, or for commands that only look, its unique beginning."""

from __future__ import annotations

from itertools import islice

import click

from tuneplane.client.errors import NotFoundError
from tuneplane.client.http import Console
from tuneplane.contract.names import is_run_id
from tuneplane.i18n import _

SEARCHED_JOBS = 1000
RUN_ID_LENGTH = 16
MIN_PREFIX = 4
SHOWN_MATCHES = 5


def find_job(console: Console, text: str) -> str:
    """The full run id for `text`. Raises `click.UsageError` when several jobs begin with it, `NotFoundError` when none does."""
    wanted = text.strip().lower()
    if is_run_id(wanted):
        return wanted
    if not MIN_PREFIX <= len(wanted) < RUN_ID_LENGTH or not wanted.isascii() or not wanted.isalnum():
        raise click.UsageError(
            _("“{text}” is no run id; give all 16 characters or at least the first {count}").format(
                text=text[:40], count=MIN_PREFIX
            )
        )
    matching = islice(console.iterate_jobs(text=wanted, limit=200), SEARCHED_JOBS)
    found = [job["id"] for job in matching if job["id"].startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if not found:
        message = _("no job begins with “{text}”").format(text=wanted)
        raise NotFoundError(404, message, _("tp job ls shows the jobs"), "not-found")
    shown = ", ".join(found[:SHOWN_MATCHES]) + (", …" if len(found) > SHOWN_MATCHES else "")
    raise click.UsageError(
        _("{count} jobs begin with “{text}”: {ids}").format(count=len(found), text=wanted, ids=shown)
    )


def full_id(text: str) -> str:
    """For what cannot be undone: the full id or nothing."""
    wanted = text.strip().lower()
    if is_run_id(wanted):
        return wanted
    raise click.UsageError(
        _("“{text}” is not a full run id; this command takes nothing shorter").format(text=text[:40])
    )
