"""`tp admin retention set`."""

from __future__ import annotations

import click

from tuneplane.cli.admin.asking import confirm
from tuneplane.cli.admin.policy_set import changes_of
from tuneplane.cli.admin.retention_show import retention_text
from tuneplane.cli.admin.subjects import project_path
from tuneplane.cli.options import json_option, server_option, tp_command, yes_option
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp admin retention set ada/lab logs_days=90 samples_days=30",
    "tp admin retention set ada/lab total_gb=500",
    "tp admin retention set ada/lab logs_days=none",
    about=_(
        "Changes the fields that are named and leaves the rest; none keeps for ever. Fields: logs_days, metrics_days, samples_days "
        "and total_gb. What is beyond them is removed for good, of runs that are over only. Owners may change their projects."
    ),
)
@click.argument("project", metavar="OWNER/PROJECT")
@click.argument("changes", metavar="FIELD=VALUE...", nargs=-1, required=True)
@yes_option
@server_option
@json_option
def command(project: str, changes: tuple[str, ...], yes: bool, server: str | None, as_json: bool) -> None:
    path, given = project_path(project), changes_of(changes)
    with open_administration(server) as console:
        before = console.retention(path)
        if any(value is not None for value in given.values()):
            question = _("What runs of {project} reported and is beyond this will be removed for good. Go on?")
            confirm(question.format(project=project), yes=yes)
        retention = console.set_retention(path, {**before["value"], **given}, before["version"])
    if as_json:
        write_json(retention)
    else:
        write(retention_text(retention))
