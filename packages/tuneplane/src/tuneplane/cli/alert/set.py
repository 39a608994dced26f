"""`tp alert set`."""

from __future__ import annotations

from typing import Any

import click

from tuneplane.cli.alert.places import alerts_of, project_option
from tuneplane.cli.alert.rule_text import rule_row
from tuneplane.cli.options import Number, WholeNumber, json_option, server_option, tp_command
from tuneplane.cli.text import table, write, write_json
from tuneplane.i18n import _

KINDS = (
    "non-finite",
    "reward-collapse",
    "kl-above",
    "no-progress",
    "gpu-idle",
    "metric-above",
    "metric-below",
    "job-failed",
    "job-succeeded",
)


@tp_command(
    "tp alert set gpu-idle --minutes 45",
    "tp alert set loss-high --metric train/loss --above 3 --minutes 10",
    "tp alert set job-succeeded --on",
    about=_(
        "Makes a rule or changes one; what is not named stays. Above and below name the kind as well. A rule fires once when it has "
        "held for its minutes, and is over once when the opposite has held for a while."
    ),
)
@click.argument("name", metavar="NAME")
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    metavar="KIND",
    default=None,
    help=_("What a new rule looks for: {kinds}.").format(kinds=", ".join(KINDS)),
)
@click.option("--metric", metavar="NAME", default=None, help=_("The metric, by its canonical name."))
@click.option("--above", type=Number(), default=None, help=_("Fires while the metric is above this."))
@click.option("--below", type=Number(), default=None, help=_("Fires while the metric is below this."))
@click.option("--share", type=Number(0, 1), default=None, help=_("Share of the gain that counts as collapsed."))
@click.option("--minutes", type=Number(0), default=None, help=_("How long it must hold."))
@click.option("--reports", type=WholeNumber(1), default=None, help=_("How many reports must say so."))
@click.option("--on/--off", "enabled", default=None, help=_("Switch the rule on or off."))
@project_option
@server_option
@json_option
def command(
    name: str,
    kind: str | None,
    metric: str | None,
    above: float | None,
    below: float | None,
    share: float | None,
    project: str | None,
    server: str | None,
    as_json: bool,
    **plain: Any,
) -> None:
    thresholds = [value for value in (above, below, share) if value is not None]
    if len(thresholds) > 1:
        raise click.UsageError(_("give one of --above, --below and --share"))
    given = {"kind": kind, "metric": metric, "threshold": thresholds[0] if thresholds else None, **plain}
    given = {field: value for field, value in given.items() if value is not None}
    if not given:
        raise click.UsageError(_("name something to change, for example --minutes 30"))
    with alerts_of(server, project) as (console, place):
        if kind is None and (above is not None or below is not None):
            known = [rule["name"] for rule in console.alerts(place)["rules"]]
            given |= {} if name in known else {"kind": "metric-above" if below is None else "metric-below"}
        rule = console.set_alert(place, name, given)
    if as_json:
        write_json(rule)
    else:
        write(table([_("ALERT"), "", _("LOOKS FOR"), _("WHOSE")], [rule_row(rule)]))
