"""`tp eval`."""

from __future__ import annotations

from typing import Any

import click

from tuneplane.cli.bench.options import evaluation_options
from tuneplane.cli.bench.start import Wanted, start
from tuneplane.cli.options import tp_command
from tuneplane.i18n import _

_OF_THE_EXPERIMENT = {
    "tasks": "--tasks",
    "limit": "--limit",
    "shots": "--shots",
    "chat_template": "--chat-template",
    "allow_code": "--allow-code",
    "gate": "--gate",
    "project": "--project",
}


@tp_command(
    "tp eval 06fq9k2m --suite general --profile h200:1 --wait",
    "tp eval 06fq9k2m --step 400 --suite gsm8k --limit 200 --profile h200:1",
    "tp eval hf:Qwen/Qwen3-0.6B --tasks arc_easy,piqa --gate 'piqa/acc>=0.6' --profile h200:1 --wait",
    "tp eval 06fq9k2m --experiment my-benchmark --profile h200:1",
    about=_(
        "Takes the newest complete checkpoint of a run, that of --step, or a model (hf:, ms:, tp:, a path, run/…). Needs no experiment: "
        "the template of evalkit/benchmark that this client has is sent. With --experiment one of the lab's says what is measured."
    ),
)
@click.argument("target", metavar="RUN|MODEL")
@click.option("--suite", multiple=True, metavar="NAME", help=_("A suite or a pack: tp bench suites lists them."))
@click.option("--experiment", default=None, metavar="NAME", help=_("An evalkit experiment of the lab."))
@evaluation_options
def command(target: str, suite: tuple[str, ...], experiment: str | None, **given: Any) -> int | None:
    if experiment:
        said = [option for name, option in _OF_THE_EXPERIMENT.items() if given[name]] + (["--suite"] if suite else [])
        if said:
            message = _("{options}: the experiment says that itself, in its config.yaml; --set changes a parameter")
            raise click.UsageError(message.format(options=", ".join(said)))
    return start(target, Wanted([part for item in suite for part in item.split(",") if part], experiment), given)
