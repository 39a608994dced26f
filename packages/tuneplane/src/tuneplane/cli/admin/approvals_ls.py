"""`tp admin approvals ls`."""

from __future__ import annotations

from typing import Any

from tuneplane.cli.job.show_text import age
from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import note, table, write, write_json
from tuneplane.client.types import Job
from tuneplane.i18n import _


@tp_command("tp admin approvals ls", "tp admin approvals ls --json", about=_("The oldest first."))
@server_option
@json_option
def command(server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        waiting = list(console.iterate_approvals())
    if as_json:
        write_json({"items": waiting})
        return
    if not waiting:
        note(_("no job waits for approval"))
        return
    rows = [
        (job["id"], job.get("owner"), f"{job['project']}/{job['experiment']}", _gpus(job), age(job.get("created_at")))
        for job in waiting
    ]
    write(table([_("RUN"), _("USER"), _("EXPERIMENT"), _("GPUS"), _("AGE")], rows))


def _gpus(job: Job) -> str:
    pools: Any = job.get("pools") or []
    return str(sum(pool.get("nodes", 1) * pool.get("gpus_per_node", 0) for pool in pools))
