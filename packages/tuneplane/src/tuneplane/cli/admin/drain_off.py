"""`tp admin drain off`."""

from __future__ import annotations

from tuneplane.cli.admin.drain_status import write_drain
from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import write_json
from tuneplane.i18n import _


@tp_command("tp admin drain off", about=_("What waits is started in its order."))
@server_option
@json_option
def command(server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        policy = console.policy("drain")
        if policy["value"].get("on"):
            policy = console.set_policy("drain", {"on": False}, policy["version"])
    if as_json:
        write_json(policy)
    else:
        write_drain(policy["value"])
