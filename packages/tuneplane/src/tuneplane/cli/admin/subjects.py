"""Whose quota a command means: a user, a project, or one of the defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tuneplane.contract.names import is_segment
from tuneplane.i18n import _


def subject_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The argument WHOSE and the option --default."""
    option = click.option(
        "--default",
        type=click.Choice(["user", "project"]),
        default=None,
        help=_("What every user, or every project, has that has no value of its own."),
    )
    return click.argument("whose", metavar="[USER|OWNER/PROJECT]", required=False, default=None)(option(function))


def subject_path(whose: str | None, default: str | None) -> str:
    """The path in the API. Raises `click.UsageError` unless exactly one of both is given, and for what is no name."""
    if (whose is None) == (default is None):
        raise click.UsageError(_("name a user, a project as OWNER/PROJECT, or --default user|project"))
    if whose is None:
        return f"defaults/{default}"
    parts = whose.split("/")
    if len(parts) > 2 or not all(is_segment(part) for part in parts):
        raise click.UsageError(_("“{text}” is neither a user nor OWNER/PROJECT").format(text=whose[:130]))
    return f"users/{whose}" if len(parts) == 1 else f"projects/{whose}"


def project_path(project: str) -> str:
    """The project as a path. Raises `click.UsageError` for what is no OWNER/PROJECT."""
    parts = project.split("/")
    if len(parts) != 2 or not all(is_segment(part) for part in parts):
        raise click.UsageError(_("“{text}” is no OWNER/PROJECT").format(text=project[:130]))
    return project
