"""`tp admin retention show`."""

from __future__ import annotations

import click

from tuneplane.cli.admin.policy_show import policy_value
from tuneplane.cli.admin.subjects import project_path
from tuneplane.cli.job.show_text import local_time
from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import fields, write, write_json
from tuneplane.client.admin import Retention
from tuneplane.i18n import _


@tp_command(
    "tp admin retention show ada/lab",
    about=_(
        "Days after the end of a run that its logs, metrics and samples are kept, and GB of output and samples in all."
    ),
)
@click.argument("project", metavar="OWNER/PROJECT")
@server_option
@json_option
def command(project: str, server: str | None, as_json: bool) -> None:
    path = project_path(project)
    with open_administration(server) as console:
        retention = console.retention(path)
    if as_json:
        write_json(retention)
    else:
        write(retention_text(retention))


def retention_text(retention: Retention) -> str:
    """Every field as `retention set` takes it, what is used now, and who changed it last."""
    changed, by = local_time(retention.get("updated_at")), retention.get("updated_by")
    rows: list[tuple[str, str | None]] = [(name, policy_value(value)) for name, value in retention["value"].items()]
    rows.append((_("stored now"), f"{retention['used_gb']:.3f} GB"))
    rows.append((_("changed"), _("{time} by {user}").format(time=changed, user=by) if changed else None))
    return fields(rows)
