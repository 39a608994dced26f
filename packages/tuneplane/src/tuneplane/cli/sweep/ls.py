"""`tp sweep ls`."""

from __future__ import annotations

from itertools import islice

import click

from tuneplane.cli.job.show_text import age
from tuneplane.cli.options import WholeNumber, json_option, server_option, tp_command
from tuneplane.cli.session import lab_or_none, open_sweeps
from tuneplane.cli.sweep.text import progress, state_word
from tuneplane.cli.text import note, table, write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp sweep ls",
    "tp sweep ls --all --json",
    about=_("Inside a lab: the sweeps of its project. Elsewhere, or with --all: every sweep you may see."),
)
@click.option("--project", default=None, help=_("Only sweeps of this project."))
@click.option("--all", "every", is_flag=True, help=_("Sweeps of every project, also inside a lab."))
@click.option("--limit", type=WholeNumber(1, 10000), default=20, show_default=True, help=_("At most this many."))
@server_option
@json_option
def command(project: str | None, every: bool, limit: int, server: str | None, as_json: bool) -> None:
    if project is None and not every:
        lab = lab_or_none()
        project = lab.name if lab else None
    with open_sweeps(server) as console:
        sweeps = list(islice(console.iterate_sweeps(project=project, limit=min(limit, 200)), limit))
    if as_json:
        write_json({"items": sweeps})
        return
    if not sweeps:
        note(_("no sweeps"))
        return
    rows = [
        (
            sweep["id"],
            sweep["experiment"] if project else f"{sweep['project']}/{sweep['experiment']}",
            sweep["method"],
            state_word(sweep["state"]),
            age(sweep.get("created_at")),
            progress(sweep),
        )
        for sweep in sweeps
    ]
    write(table([_("SWEEP"), _("EXPERIMENT"), _("METHOD"), _("STATE"), _("AGE"), _("TRIALS")], rows))
