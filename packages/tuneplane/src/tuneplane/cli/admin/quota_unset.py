"""`tp admin quota unset`."""

from __future__ import annotations

from tuneplane.cli.admin.asking import confirm
from tuneplane.cli.admin.subjects import subject_options, subject_path
from tuneplane.cli.options import json_option, server_option, tp_command, yes_option
from tuneplane.cli.quota_text import whose as whose_text
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import note, write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp admin quota unset ada",
    "tp admin quota unset --default project --yes",
    about=_("All limits of its own are forgotten; the default's count from then on."),
)
@subject_options
@yes_option
@server_option
@json_option
def command(whose: str | None, default: str | None, yes: bool, server: str | None, as_json: bool) -> None:
    path = subject_path(whose, default)
    with open_administration(server) as console:
        before = console.quota(path)
        name = whose_text(before)
        if before["own"]:
            confirm(_("Forget all limits of {whose}?").format(whose=name), yes=yes)
            quota = console.set_quota(path, {}, before["version"])
        else:
            note(_("{whose} has no limits of its own").format(whose=name))
            quota = before
    if as_json:
        write_json(quota)
    elif before["own"]:
        write(_("{whose} has no limits of its own any more").format(whose=name) + "\n")
