"""`tp webhook ls`."""

from __future__ import annotations

from tuneplane.cli.alert.places import alerts_of, project_option
from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.text import table, write, write_json
from tuneplane.i18n import _


@tp_command("tp webhook ls", "tp webhook ls --json", about=_("Where the project's alerts are sent."))
@project_option
@server_option
@json_option
def command(project: str | None, server: str | None, as_json: bool) -> None:
    with alerts_of(server, project) as (console, place):
        found = console.webhooks(place)
    if as_json:
        write_json({"items": found})
        return
    rows = [
        (
            hook["id"],
            _("on") if hook["enabled"] else hook.get("disabled_why") or _("off"),
            ", ".join(hook.get("events") or []) or _("everything"),
            hook["url"],
        )
        for hook in found
    ]
    write(table([_("WEBHOOK"), "", _("SENDS"), _("ADDRESS")], rows))
