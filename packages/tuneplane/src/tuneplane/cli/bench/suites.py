"""`tp bench suites`."""

from __future__ import annotations

from tuneplane.cli.options import json_option, tp_command
from tuneplane.cli.text import note, table, write, write_json
from tuneplane.evaluation.suites import METHOD, SUITES
from tuneplane.i18n import _


@tp_command(
    "tp bench suites",
    "tp bench suites --json",
    about=_("Suites, what they measure, and the packs that they are made of."),
)
@json_option
def command(as_json: bool) -> None:
    from tuneplane.recipes.index import config_keys, entry

    packs = (config_keys(entry(METHOD)) or {})["packs"]["choices"]
    if as_json:
        suites = [
            {
                "name": suite.name,
                "summary": _(suite.summary),
                "packs": suite.packs,
                "tasks": suite.tasks,
                "runner": suite.runner,
            }
            for suite in SUITES
        ]
        write_json({"suites": suites, "packs": packs})
        return
    rows = [(suite.name, ", ".join([*suite.packs, *suite.tasks]) or suite.runner, _(suite.summary)) for suite in SUITES]
    write(table([_("SUITE"), _("MADE OF"), _("MEASURES")], rows))
    note(_("packs by themselves: {packs}").format(packs=", ".join(packs)))
