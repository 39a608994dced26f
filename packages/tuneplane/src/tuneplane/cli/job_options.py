"""What may be said about a job that is submitted, or about the jobs of a sweep: the same options for both."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import click

from tuneplane.cli.options import Number, WholeNumber
from tuneplane.i18n import _

_OPTIONS = (
    partial(
        click.option,
        "--profile",
        "-p",
        multiple=True,
        metavar="[ROLE,…=]NAME[:GPUS]",
        help=_("Card and how many in all, for example h200:8; cpu for none."),
    ),
    partial(click.option, "--cpus", type=WholeNumber(1, 4096), default=None, help=_("CPUs of each machine.")),
    partial(
        click.option, "--memory-gb", type=Number(min=0.1, max=65536), default=None, help=_("Memory of each machine.")
    ),
    partial(
        click.option, "--set", "-s", multiple=True, metavar="NAME=VALUE", help=_("A parameter, for this job only.")
    ),
    partial(
        click.option,
        "--model",
        default=None,
        metavar="REF",
        help=_("Base model: hf:owner/name, ms:…, tp:…, a path, run/…"),
    ),
    partial(click.option, "--init-from", default=None, metavar="REF", help=_("Start from these weights.")),
    partial(
        click.option,
        "--train-data",
        default=None,
        metavar="REF",
        help=_("Training data: owner/name@version, or a path that the machine of the job sees."),
    ),
    partial(click.option, "--validation-data", default=None, metavar="REF", help=_("Validation data, given likewise.")),
    partial(click.option, "--volume", multiple=True, metavar="OWNER/NAME", help=_("A volume to mount, read-only.")),
    partial(click.option, "--image", default=None, help=_("Image with a tag or digest, instead of the catalog's.")),
    partial(
        click.option,
        "--observability",
        type=click.Choice(("platform", "external")),
        default=None,
        help=_("Whether the platform or something external draws the curves."),
    ),
    partial(click.option, "--observability-url", default=None, metavar="URL", help=_("Where external curves are.")),
    partial(
        click.option,
        "--env",
        "-e",
        multiple=True,
        metavar="NAME=VALUE",
        help=_("Environment of the job; readable by all."),
    ),
    partial(click.option, "--secret", multiple=True, metavar="NAME", help=_("A secret that the console keeps.")),
    partial(click.option, "--name", default=None, help=_("A name to show for the job.")),
    partial(click.option, "--label", multiple=True, metavar="NAME=VALUE", help=_("A label.")),
    partial(click.option, "--priority", type=WholeNumber(-100, 100), default=None, help=_("Higher goes first.")),
    partial(click.option, "--max-duration", default=None, metavar="TIME", help=_("Stop it after 90s, 30m, 2h, 1d.")),
    partial(click.option, "--grace", default=None, metavar="TIME", help=_("Between asking it to stop and killing it.")),
    partial(
        click.option, "--retries", multiple=True, metavar="CLASS=N", help=_("Further attempts, for example infra=1.")
    ),
    partial(
        click.option,
        "--then-export",
        type=click.Choice(("as-is", "merged")),
        default=None,
        help=_("Export the newest checkpoint after a success, as it is or with LoRA merged."),
    ),
)


def job_options(without: Collection[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds them to a command, in this order; `without`: those that it does not take, by their names (`--model`)."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(_OPTIONS):
            if option.args[0] not in without:
                function = option()(function)
        return function

    return add
