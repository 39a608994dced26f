"""`tp job open`."""

from __future__ import annotations

import click

from tuneplane.cli.browser import open_page
from tuneplane.cli.job.ids import find_job
from tuneplane.cli.options import job_argument, json_option, server_option, tp_command
from tuneplane.cli.session import open_console
from tuneplane.cli.text import write, write_json
from tuneplane.i18n import _


@tp_command(
    "tp job open 06fq9k2m",
    about=_("Prints the address of the page, and opens it where there is a desktop."),
)
@job_argument
@click.option("--print", "only_print", is_flag=True, help=_("Only print the address."))
@server_option
@json_option
def command(job: str, only_print: bool, server: str | None, as_json: bool) -> None:
    with open_console(server) as console:
        run = find_job(console, job)
        address = page_of(console.server, run)
    if as_json:
        write_json({"id": run, "url": address})
        return
    write(f"{address}\n")
    if not only_print:
        open_page(address)


def page_of(server: str, run: str) -> str:
    """The address of a job's page in the console."""
    return f"{server}/jobs/{run}"
