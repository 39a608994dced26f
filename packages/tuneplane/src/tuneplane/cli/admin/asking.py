"""A question before what hurts somebody."""

from __future__ import annotations

import click

from tuneplane.cli.text import on_terminal
from tuneplane.i18n import _


def confirm(question: str, *, yes: bool) -> None:
    """Ask, unless `yes`. Raises `click.Abort` for a no, and `click.UsageError` when nobody can be asked."""
    if yes:
        return
    if not on_terminal():
        raise click.UsageError(_("this needs --yes when nobody can be asked"))
    click.confirm(question, abort=True, err=True)
