"""`tp bench run`."""

from __future__ import annotations

from typing import Any

import click

from tuneplane.cli.bench.options import evaluation_options
from tuneplane.cli.bench.start import Wanted, start
from tuneplane.cli.options import tp_command
from tuneplane.i18n import _


@tp_command(
    "tp bench run general hf:Qwen/Qwen3-0.6B --profile h200:1 --wait",
    "tp bench run mathematics,ifeval 06fq9k2m --step 400 --profile h200:1",
    about=_("SUITE is one or several of tp bench suites, with commas. MODEL is a model or a run, as for tp eval."),
)
@click.argument("suite", metavar="SUITE")
@click.argument("model", metavar="MODEL")
@evaluation_options
def command(suite: str, model: str, **given: Any) -> int | None:
    return start(model, Wanted([part for part in suite.split(",") if part]), given)
