"""`tp alert ls`."""

from __future__ import annotations

from tuneplane.cli.alert.places import alerts_of, project_option
from tuneplane.cli.alert.rule_text import rule_row
from tuneplane.cli.job.show_text import local_time
from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.text import table, write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp alert ls",
    "tp alert ls --project ada/lab --json",
    about=_("The rules of the project, and what fires now."),
)
@project_option
@server_option
@json_option
def command(project: str | None, server: str | None, as_json: bool) -> None:
    with alerts_of(server, project) as (console, place):
        found = console.alerts(place)
    if as_json:
        write_json(found)
        return
    write(table([_("ALERT"), "", _("LOOKS FOR"), _("WHOSE")], map(rule_row, found["rules"])))
    if found["firing"]:
        rows = [
            (item["job_id"], item["rule"], local_time(item["since"]), item.get("text") or "")
            for item in found["firing"]
        ]
        write("\n" + table([_("RUN"), _("FIRES"), _("SINCE"), ""], rows))
