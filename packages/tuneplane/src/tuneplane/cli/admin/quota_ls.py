"""`tp admin quota ls`."""

from __future__ import annotations

from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.quota_text import FIELDS, noun, value_text, whose
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import table, write, write_json
from tuneplane.client.types import Quota
from tuneplane.i18n import _


@tp_command(
    "tp admin quota ls",
    "tp admin quota ls --json",
    about=_("Who has limits of their own, and both defaults. What a row does not name is the default's."),
)
@server_option
@json_option
def command(server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        quotas = console.quotas()
    if as_json:
        write_json({"items": quotas})
        return
    rows = [(whose(quota), quota.get("updated_by"), _own(quota)) for quota in quotas]
    write(table([_("WHOSE"), _("CHANGED BY"), _("LIMITS")], rows))


def _own(quota: Quota) -> str:
    own = quota["own"]
    shown = [f"{noun(field)}: {value_text(field, own[field])}" for field in FIELDS if field in own]
    return "; ".join(shown) or _("none")
