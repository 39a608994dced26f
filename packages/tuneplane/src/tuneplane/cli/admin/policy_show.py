"""`tp admin policy show`."""

from __future__ import annotations

import json
from typing import Any

import click

from tuneplane.cli.job.show_text import local_time
from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import fields, write, write_json
from tuneplane.client.admin import Policy
from tuneplane.i18n import _


@tp_command("tp admin policy show", "tp admin policy show approval --json")
@click.argument("name", metavar="[POLICY]", required=False, default=None)
@server_option
@json_option
def command(name: str | None, server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        policies = console.policies() if name is None else [console.policy(name)]
    if as_json:
        write_json({"items": policies})
    else:
        write("\n".join(_text(policy) for policy in policies))


def _text(policy: Policy) -> str:
    changed, by = local_time(policy.get("updated_at")), policy.get("updated_by")
    head = _("changed {time} by {user}").format(time=changed, user=by) if changed else _("never changed")
    values = [(f"  {field}", policy_value(value)) for field, value in policy["value"].items()]
    return f"{policy['name']}  ({head})\n" + fields(values)


def policy_value(value: Any) -> str:
    """As `policy set` takes it."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)
