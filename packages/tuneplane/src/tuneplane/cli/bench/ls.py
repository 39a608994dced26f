"""`tp bench ls`."""

from __future__ import annotations

from itertools import islice

import click

from tuneplane.cli.bench.text import heads_text, model_text, number
from tuneplane.cli.job.show_text import age
from tuneplane.cli.options import WholeNumber, json_option, server_option, tp_command
from tuneplane.cli.session import lab_or_none, open_evaluations
from tuneplane.cli.text import note, table, write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp bench ls",
    "tp bench ls --model hf:Qwen/Qwen3-0.6B --all",
    about=_(
        "Reports, newest first. Inside a lab: those of its project. Elsewhere, or with --all: every one you may see."
    ),
)
@click.option("--project", default=None, help=_("Only reports of this project."))
@click.option(
    "--model", default=None, metavar="REF|RUN", help=_("Only reports on this model, or on checkpoints of this run.")
)
@click.option("--all", "every", is_flag=True, help=_("Reports of every project, also inside a lab."))
@click.option("--limit", type=WholeNumber(1, 10000), default=20, show_default=True, help=_("At most this many."))
@server_option
@json_option
def command(project: str | None, model: str | None, every: bool, limit: int, server: str | None, as_json: bool) -> None:
    if project is None and not every:
        lab = lab_or_none()
        project = lab.name if lab else None
    with open_evaluations(server) as console:
        pages = console.iterate_evaluations(project=project, model=model, limit=min(limit, 200))
        found = list(islice(pages, limit))
    if as_json:
        write_json({"items": found})
        return
    if not found:
        note(_("no evaluation reports; make one with: tp eval RUN --suite general"))
        return
    rows = [
        (
            item["run"],
            model_text(item["model"]),
            "-" if item["score"] is None else number(item["score"]),
            age(item["created_at"]),
            heads_text(item),
        )
        for item in found
    ]
    write(table([_("RUN"), _("MODEL"), _("SCORE"), _("AGE"), _("TASKS")], rows))
