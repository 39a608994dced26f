"""`tp job samples`."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import click

from tuneplane.cli.job.ids import find_job
from tuneplane.cli.options import WholeNumber, job_argument, json_option, server_option, tp_command
from tuneplane.cli.session import open_console
from tuneplane.cli.text import clean, note, write, write_json
from tuneplane.client.types import SampleItem
from tuneplane.i18n import _

MAX_SHOWN = 2000  # characters of one text


@tp_command(
    "tp job samples 06fq9k2m --limit 3",
    "tp job samples 06fq9k2m --kind completion --step 100 --json",
    about=_("What the model writes during training: completions with rewards, preferences, conversations."),
)
@job_argument
@click.option("--kind", type=click.Choice(("completion", "preference", "conversation")), help=_("Only of this kind."))
@click.option("--step", type=WholeNumber(0), default=None, help=_("Only of this step."))
@click.option("--limit", type=WholeNumber(1, 10000), default=10, show_default=True, help=_("At most this many."))
@click.option("--oldest", is_flag=True, help=_("Oldest first instead of newest."))
@server_option
@json_option
def command(
    job: str, kind: str | None, step: int | None, limit: int, oldest: bool, server: str | None, as_json: bool
) -> None:
    with open_console(server) as console:
        run = find_job(console, job)
        query = {"kind": kind, "step": step, "order": "oldest" if oldest else "newest", "limit": min(limit, 200)}
        found = list(islice(console.iterate_samples(run, **query), limit))
    if as_json:
        write_json({"items": found})
        return
    if not found:
        note(_("no samples"))
    for item in found:
        write(_text(item))


def _text(item: SampleItem) -> str:
    head = f"── {_('step {step}').format(step=item['step'])} · {item['kind']}"
    reward = item["data"].get("reward")
    if reward is not None:
        head += f" · {_('reward')} {reward}"
    return head + "\n" + "".join(_part(name, value) for name, value in item["data"].items() if name != "reward") + "\n"


def _part(name: str, value: Any) -> str:
    if name == "messages" and isinstance(value, list):
        return "".join(
            _part(str(turn.get("role", "?")), turn.get("content")) for turn in value if isinstance(turn, dict)
        )
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    cut = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
    return f"{clean(name)}:\n" + "".join(f"    {clean(line)}\n" for line in cut.splitlines() or [""])
