"""What may be said about an evaluation: the options of a job that make sense for one, and how the model is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tuneplane.cli.job_options import job_options
from tuneplane.cli.options import WholeNumber, json_option, server_option, yes_option
from tuneplane.i18n import _

# The model is the command's argument; a benchmark trains on nothing, and its figures are the platform's.
NOT_OFFERED = ("--model", "--init-from", "--train-data", "--observability", "--observability-url", "--then-export")

_ASKING = (
    click.option("--tasks", "-t", multiple=True, metavar="NAME,…", help=_("Tasks of lm-eval by their own names.")),
    click.option("--limit", type=WholeNumber(1), default=None, help=_("Only the first rows of each task.")),
    click.option("--shots", type=WholeNumber(0), default=None, help=_("Examples before each question.")),
    click.option("--chat-template", is_flag=True, help=_("Put questions into the model's chat format.")),
    click.option("--allow-code", is_flag=True, help=_("Let humaneval and mbpp run what the model wrote.")),
    click.option(
        "--gate", multiple=True, metavar="METRIC>=N", help=_("What a figure is to be at least, or with <= at most.")
    ),
    click.option("--step", type=WholeNumber(0), default=None, help=_("The run's checkpoint of this step.")),
    click.option("--project", default=None, help=_("Instead of the run's own project, or the lab's.")),
)
_WAITING = (
    click.option("--dry-run", is_flag=True, help=_("Show what would be sent and started; change nothing.")),
    click.option("--wait", is_flag=True, help=_("Wait for the report and show it.")),
    click.option("--follow", "-f", is_flag=True, help=_("As --wait, and show its output.")),
    yes_option,
    server_option,
    json_option,
)


def evaluation_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds them to a command: how the model is asked, the job, the waiting."""
    for option in reversed(_WAITING):
        function = option(function)
    function = job_options(NOT_OFFERED)(function)
    for option in reversed(_ASKING):
        function = option(function)
    return function
