"""`tp admin quota show`."""

from __future__ import annotations

from tuneplane.cli.admin.subjects import subject_options, subject_path
from tuneplane.cli.job.show_text import local_time
from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.quota_text import limit_rows, whose
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import fields, table, write, write_json
from tuneplane.client.types import QuotaReport
from tuneplane.i18n import _


@tp_command(
    "tp admin quota show ada",
    "tp admin quota show ada/lab",
    "tp admin quota show --default user",
    about=_("Every limit with where it comes from, and what is used of it now."),
)
@subject_options
@server_option
@json_option
def command(whose: str | None, default: str | None, server: str | None, as_json: bool) -> None:
    path = subject_path(whose, default)
    with open_administration(server) as console:
        report = console.quota(path)
    if as_json:
        write_json(report)
    else:
        _write_text(report)


def _write_text(report: QuotaReport) -> None:
    changed = local_time(report.get("updated_at"))
    by = report.get("updated_by")
    write(
        fields(
            [
                (_("quota"), whose(report)),
                (_("version"), str(report["version"])),
                (_("changed"), _("{time} by {user}").format(time=changed, user=by) if changed else None),
                (_("day"), _("until {time}").format(time=local_time(report["day"]["end"]))),
                (_("month"), _("until {time}").format(time=local_time(report["month"]["end"]))),
            ]
        )
        + "\n"
    )
    write(table(["", _("LIMIT"), _("FROM"), _("USED"), ""], limit_rows(report)))
