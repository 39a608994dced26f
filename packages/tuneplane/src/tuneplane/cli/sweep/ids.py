"""Sweep ids as people type them: the full one, or for commands that only look, its unique beginning."""

from __future__ import annotations

from itertools import islice

import click

from tuneplane.cli.job.ids import MIN_PREFIX, RUN_ID_LENGTH, SEARCHED_JOBS, SHOWN_MATCHES
from tuneplane.client.errors import NotFoundError
from tuneplane.client.sweeps import SweepConsole
from tuneplane.contract.names import is_run_id
from tuneplane.i18n import _


def find_sweep(console: SweepConsole, text: str) -> str:
    """The full id for `text`. Raises `click.UsageError` when several sweeps begin with it, `NotFoundError` when none does."""
    wanted = text.strip().lower()
    if is_run_id(wanted):
        return wanted
    if not MIN_PREFIX <= len(wanted) < RUN_ID_LENGTH or not wanted.isascii() or not wanted.isalnum():
        raise click.UsageError(
            _("“{text}” is no id of a sweep; give all 16 characters or at least the first {count}").format(
                text=text[:40], count=MIN_PREFIX
            )
        )
    listed = islice(console.iterate_sweeps(limit=200), SEARCHED_JOBS)
    found = [sweep["id"] for sweep in listed if sweep["id"].startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if not found:
        message = _("no sweep begins with “{text}”").format(text=wanted)
        raise NotFoundError(404, message, _("tp sweep ls shows the sweeps"), "not-found")
    shown = ", ".join(found[:SHOWN_MATCHES]) + (", …" if len(found) > SHOWN_MATCHES else "")
    raise click.UsageError(
        _("{count} sweeps begin with “{text}”: {ids}").format(count=len(found), text=wanted, ids=shown)
    )


def full_sweep_id(text: str) -> str:
    """For what cannot be undone: the full id or nothing."""
    wanted = text.strip().lower()
    if is_run_id(wanted):
        return wanted
    raise click.UsageError(
        _("“{text}” is not the full id of a sweep; this command takes nothing shorter").format(text=text[:40])
    )
