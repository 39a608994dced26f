"""`tp job samples`."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import click

from tuneplane.cli.job.ids import find_job
from tuneplane.cli.job.removed import say_removed
from tuneplane.cli.options import Number, WholeNumber, job_argument, json_option, server_option, tp_command
from tuneplane.cli.save import form_of, save
from tuneplane.cli.session import open_console
from tuneplane.cli.text import clean, note, write, write_json
from tuneplane.client.types import SampleItem
from tuneplane.i18n import _
from tuneplane.lab.plan import show_size

MAX_SHOWN = 2000  # characters of one text


@tp_command(
    "tp job samples 06fq9k2m --limit 3",
    "tp job samples 06fq9k2m --grep boxed --max-reward 0.2 --order lowest",
    "tp job samples 06fq9k2m --kind completion --step 100:200 --json",
    "tp job samples 06fq9k2m --export samples.parquet",
    about=_("What the model writes during training: completions with rewards, preferences, conversations."),
)
@job_argument
@click.option("--kind", type=click.Choice(("completion", "preference", "conversation")), help=_("Only of this kind."))
@click.option("--step", metavar="N|FIRST:LAST", default=None, help=_("Only of this step, or of a range."))
@click.option("--attempt", type=WholeNumber(1), default=None, help=_("Only of this attempt."))
@click.option("--rank", type=WholeNumber(0), default=None, help=_("Only of this rank."))
@click.option("--min-reward", type=Number(), default=None, metavar="R", help=_("Only with this reward or more."))
@click.option("--max-reward", type=Number(), default=None, metavar="R", help=_("Only with this reward or less."))
@click.option("--grep", default=None, metavar="TEXT", help=_("Only samples that hold this text."))
@click.option(
    "--order",
    type=click.Choice(("newest", "oldest", "highest", "lowest")),
    default="newest",
    show_default=True,
    help=_("By time, or by reward."),
)
@click.option("--limit", type=WholeNumber(1, 10000), default=10, show_default=True, help=_("At most this many."))
@click.option("--oldest", is_flag=True, help=_("Oldest first instead of newest."))
@click.option(
    "--export", metavar="FILE", default=None, help=_("Write all that fit to a .csv, .json or .parquet file instead.")
)
@server_option
@json_option
def command(
    job: str,
    step: str | None,
    order: str,
    limit: int,
    oldest: bool,
    export: str | None,
    server: str | None,
    as_json: bool,
    **filters: Any,
) -> None:
    query = filters | _steps(step)
    with open_console(server) as console:
        run = find_job(console, job)
        if export is not None:
            with console.streamed(run, "samples/export", {"format": form_of(export), **query}) as answer:
                size = save(export, answer.iter_bytes())
            note(_("wrote {path}, {size}").format(path=export, size=show_size(size)))
            return
        query |= {"order": "oldest" if oldest else order, "limit": min(limit, 200)}
        found = list(islice(console.iterate_samples(run, **query), limit))
        removed_at = None if found else console.samples(run, limit=1).get("removed_at")
    if as_json:
        write_json({"items": found})
        return
    if not found and not say_removed(removed_at):
        note(_("no samples"))
    for item in found:
        write(_text(item))


def _steps(text: str | None) -> dict[str, int]:
    """`100`, `100:200`, `100:` or `:200` as the API asks; raises `click.BadParameter`."""
    if text is None:
        return {}
    first, colon, last = text.strip().partition(":")
    if not (first or last) or not all(part.isdecimal() and len(part) < 19 for part in (first, last) if part):
        raise click.BadParameter(_("write a step, 100, or a range, 100:200"), param_hint="--step")
    if not colon:
        return {"step": int(first)}
    ends = (("step_min", first), ("step_max", last))
    return {name: int(part) for name, part in ends if part}


def _text(item: SampleItem) -> str:
    head = f"── {_('step {step}').format(step=item['step'])} · {item['kind']}"
    reward = item["data"].get("reward", item.get("reward"))
    if reward is not None:
        head += f" · {_('reward')} {clean(str(reward))[:80]}"
    return head + "\n" + "".join(_part(name, value) for name, value in item["data"].items() if name != "reward") + "\n"


def _part(name: str, value: Any) -> str:
    if name == "messages" and isinstance(value, list):
        return "".join(
            _part(str(turn.get("role", "?")), turn.get("content")) for turn in value if isinstance(turn, dict)
        )
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    cut = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
    return f"{clean(name)}:\n" + "".join(f"    {clean(line)}\n" for line in cut.splitlines() or [""])
