"""`tp admin policy set`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import click

from tuneplane.cli.admin.asking import confirm
from tuneplane.cli.admin.policy_show import policy_value
from tuneplane.cli.options import json_option, server_option, tp_command, yes_option
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import fields, write, write_json
from tuneplane.i18n import _

_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,15})?", re.ASCII)


@tp_command(
    "tp admin policy set approval gpus=16 seconds=86400",
    "tp admin policy set approval gpus=none",
    "tp admin policy set watchdog stalled_minutes=45 stop_stalled=true",
    about=_(
        "Changes the fields that are named and leaves the rest; none turns a figure off. tp admin policy show lists them. "
        "Maintenance is turned on and off by tp admin drain."
    ),
)
@click.argument("name", metavar="POLICY")
@click.argument("changes", metavar="FIELD=VALUE...", nargs=-1, required=True)
@yes_option
@server_option
@json_option
def command(name: str, changes: tuple[str, ...], yes: bool, server: str | None, as_json: bool) -> None:
    given = changes_of(changes)
    if name == "drain":
        raise click.UsageError(_("maintenance is turned on and off by tp admin drain"))
    with open_administration(server) as console:
        before = console.policy(name)
        stops = [field for field, value in given.items() if field.startswith("stop_") and value is True]
        if stops:
            question = _("{fields}: runs will be stopped by themselves. Go on?").format(fields=", ".join(stops))
            confirm(question, yes=yes)
        policy = console.set_policy(name, {**before["value"], **given}, before["version"])
    if as_json:
        write_json(policy)
    else:
        write(fields([(field, policy_value(policy["value"].get(field))) for field in given]))


def changes_of(texts: Iterable[str]) -> dict[str, Any]:
    """Field -> value of FIELD=VALUE…; none is None. Raises `click.UsageError`."""
    return dict(_change(text) for text in texts)


def _change(text: str) -> tuple[str, Any]:
    field, equals, value = text.partition("=")
    if not equals or not field:
        raise click.UsageError(_("“{text}” is no FIELD=VALUE").format(text=text[:80]))
    words = {"none": None, "true": True, "false": False}
    if value in words:
        return field, words[value]
    return field, json.loads(value) if _NUMBER.fullmatch(value) and not re.match(r"-?0\d", value) else value
