"""`tp admin user ls`."""

from __future__ import annotations

from tuneplane.cli.job.show_text import local_time
from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import table, write, write_json
from tuneplane.client.admin import User
from tuneplane.i18n import _


@tp_command("tp admin user ls", "tp admin user ls --json")
@server_option
@json_option
def command(server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        users = console.users()
    if as_json:
        write_json({"items": users})
        return
    rows = [(user["username"], _role(user), local_time(user.get("created_at")), _state(user)) for user in users]
    write(table([_("USER"), _("ROLE"), _("SINCE"), _("STATE")], rows))


def _role(user: User) -> str:
    return _("administrator") if user["admin"] else _("user")


def _state(user: User) -> str:
    since = local_time(user.get("disabled_at"))
    return _("disabled since {time}").format(time=since) if since else _("may sign in")
