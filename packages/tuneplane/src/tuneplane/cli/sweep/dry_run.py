"""`tp sweep run --dry-run`: every variant, and what the console says to all of them."""

from __future__ import annotations

from typing import Any

from tuneplane.cli.session import sweeps_for
from tuneplane.cli.submission import Draft, scan, shape
from tuneplane.cli.sweep.request import Wanted, ask_console, request_of
from tuneplane.cli.sweep.text import axis_text
from tuneplane.cli.text import table, write, write_json
from tuneplane.client.errors import ConsoleError
from tuneplane.client.servers import choose
from tuneplane.client.sweeps import SweepDryRun
from tuneplane.contract.refusals import RefusedError
from tuneplane.i18n import _, ngettext
from tuneplane.sweeps.check import trials_of
from tuneplane.sweeps.space import as_text, draw, space_of, variant

SHOWN = 100


def dry_run(made: Draft, found: Wanted, given: dict[str, Any]) -> None:
    """Show everything and change nothing. Raises `RefusedError` with all refusals, after showing what could be worked out."""
    scan(made)
    sound = found.sweep is not None and not made.refusals
    answer, why_not = _ask(made, found, given)
    variants = _variants(found.sweep) if sound and found.sweep is not None else []
    if given["as_json"]:
        write_json(
            {
                "request": request_of(made, found),
                "admission": {"asked": answer is not None, "why_not": why_not or None, **(answer or {})},
                "refusals": [refusal.to_json() for refusal in made.refusals],
                "variants": variants,
            }
        )
    else:
        _write(found, variants, answer, why_not)
    if made.refusals:
        raise RefusedError(made.refusals)


def _ask(made: Draft, found: Wanted, given: dict[str, Any]) -> tuple[SweepDryRun | None, str]:
    try:
        with sweeps_for(choose(given["server"])) as console:
            shape(made, given, console.hardware())
            return ask_console(console, made, found), ""
    except ConsoleError as error:
        if made.pools is None:
            shape(made, given, None)
        return None, error.message


def _variants(sweep: dict[str, Any]) -> list[dict[str, Any]]:
    """Those that are known before the first trial has begun."""
    space, total = space_of(sweep["params"]), trials_of(sweep)
    if sweep["method"] == "bayes":
        return []
    if sweep["method"] == "grid":
        return [variant(space, number) for number in range(total)]
    return [draw(space, int(sweep.get("seed", 0)), number, total) for number in range(total)]


def _write(found: Wanted, variants: list[dict[str, Any]], answer: SweepDryRun | None, why_not: str) -> None:
    sweep = found.sweep
    if sweep is not None and sweep["method"] == "bayes":
        write(_("the variants are chosen as results come, from:") + "\n")
        write("".join(f"  {name}: {axis_text(axis)}\n" for name, axis in sweep["params"].items()))
    if variants:
        names = list(variants[0])
        rows = [(place, *(as_text(params[name]) for name in names)) for place, params in enumerate(variants[:SHOWN])]
        write(table([_("TRIAL"), *names], rows))
        if len(variants) > SHOWN:
            write(_("… and {count} more").format(count=len(variants) - SHOWN) + "\n")
    if answer is None:
        write(_("not asked: {why}").format(why=why_not or _("there is no JobSpec yet")) + "\n")
        return
    if not answer["admitted"]:
        write(_("refused; the reasons follow") + "\n")
        return
    total = answer.get("total", len(variants))
    count = ngettext(
        "admitted: {count} trial, at most {most} at once", "admitted: {count} trials, at most {most} at once", total
    )
    write(count.format(count=total, most=answer.get("max_parallel", "?")) + "\n")
    approval = answer.get("approval")
    if approval:
        write(f"{approval['text']}\n")
