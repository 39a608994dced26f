"""`tp bench compare`."""

from __future__ import annotations

import click

from tuneplane.cli.bench.text import comparison_table, legend
from tuneplane.cli.job.ids import find_job
from tuneplane.cli.options import Number, json_option, server_option, tp_command
from tuneplane.cli.session import open_evaluations
from tuneplane.cli.text import note, write, write_json
from tuneplane.i18n import _

FEWEST, MOST = 2, 10


@tp_command(
    "tp bench compare 06fq9k2m 06fqc71x",
    "tp bench compare 06fq9k2m 06fqc71x 06fqd03z --confidence 0.99 --json",
    about=_(
        "The runs are evaluations; the first one is the base. A difference is marked when its interval holds no zero. Only what was "
        "measured alike is compared: the same version of the task, examples, rows and chat template; what was not says why."
    ),
)
@click.argument("runs", metavar="RUN...", nargs=-1)
@click.option(
    "--confidence", type=Number(min=0.5, max=0.9999), default=0.95, show_default=True, help=_("Of the intervals.")
)
@server_option
@json_option
def command(runs: tuple[str, ...], confidence: float, server: str | None, as_json: bool) -> None:
    if not FEWEST <= len(runs) <= MOST:
        raise click.UsageError(
            _("name {fewest} to {most} runs; tp bench ls lists them").format(fewest=FEWEST, most=MOST)
        )
    with open_evaluations(server) as console:
        found = console.compare_evaluations([find_job(console, run) for run in runs], confidence)
    if as_json:
        write_json(found)
        return
    write(legend(found))
    text, remarks = comparison_table(found)
    write("\n" + text)
    for remark in remarks:
        note(remark)
