"""`tp job ls`."""

from __future__ import annotations

from itertools import islice

import click

from tuneplane.cli.job.show_text import age, run_time, state_word, why
from tuneplane.cli.options import WholeNumber, json_option, server_option, tp_command
from tuneplane.cli.session import lab_or_none, open_console
from tuneplane.cli.text import note, table, write, write_json
from tuneplane.contract.words import PHASES
from tuneplane.i18n import _


@tp_command(
    "tp job ls",
    "tp job ls --phase running --json",
    about=_("Inside a lab: the jobs of its project. Elsewhere, or with --all: every job you may see."),
)
@click.option("--project", default=None, help=_("Only jobs of this project."))
@click.option("--all", "every", is_flag=True, help=_("Jobs of every project, also inside a lab."))
@click.option("--experiment", default=None, help=_("Only jobs of this experiment."))
@click.option("--phase", type=click.Choice(PHASES), default=None, help=_("Only jobs in this phase."))
@click.option("--limit", type=WholeNumber(1, 10000), default=20, show_default=True, help=_("At most this many."))
@server_option
@json_option
def command(
    project: str | None,
    every: bool,
    experiment: str | None,
    phase: str | None,
    limit: int,
    server: str | None,
    as_json: bool,
) -> None:
    if project is None and not every:
        lab = lab_or_none()
        project = lab.name if lab else None
    with open_console(server) as console:
        found = console.iterate_jobs(project=project, experiment=experiment, phase=phase, limit=min(limit, 200))
        jobs = list(islice(found, limit))
    if as_json:
        write_json({"items": jobs})
        return
    if not jobs:
        note(_("no jobs"))
        return
    rows = [
        (
            job["id"],
            job["experiment"] if project else f"{job['project']}/{job['experiment']}",
            job.get("recipe", {"name": "-"})["name"],
            state_word(job),
            age(job.get("created_at")),
            run_time(job) if job["phase"] != "queued" else "-",
            why(job)[:80],
        )
        for job in jobs
    ]
    headers = [_("RUN"), _("EXPERIMENT"), _("METHOD"), _("PHASE"), _("AGE"), _("TIME"), ""]
    write(table(headers, rows))
