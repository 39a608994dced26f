"""The project whose alerts and webhooks a command is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from tuneplane.cli.session import lab_or_none, open_alerts
from tuneplane.client.alerts import AlertConsole
from tuneplane.i18n import _

project_option = click.option(
    "--project", metavar="[OWNER/]NAME", default=None, help=_("The project; the lab's own when it is not given.")
)


@contextmanager
def alerts_of(server: str | None, project: str | None) -> Iterator[tuple[AlertConsole, str]]:
    """The console and `<owner>/<name>` of the project; a name alone is one of the user's own."""
    wanted = (project or "").removeprefix("@")
    if not wanted:
        lab = lab_or_none()
        if lab is None:
            raise click.UsageError(_("name a project with --project, or run this in a lab"))
        wanted = lab.name
    with open_alerts(server) as console:
        yield console, wanted if "/" in wanted else f"{console.me()['username']}/{wanted}"
