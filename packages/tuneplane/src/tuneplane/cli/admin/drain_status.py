"""`tp admin drain status`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from tuneplane.cli.job.show_text import age, state_word
from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.quota_text import drain_line
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import table, write, write_json
from tuneplane.i18n import _, ngettext

LIVE = "starting,running,finishing"
SHOWN_JOBS = 200


@tp_command("tp admin drain status", "tp admin drain status --json")
@server_option
@json_option
def command(server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        value = console.policy("drain")["value"]
        live = list(islice(console.iterate_jobs(phase=LIVE, limit=200), SHOWN_JOBS))
    if as_json:
        write_json({"drain": value, "live": live})
        return
    write_drain(value)
    if not live:
        write(_("nothing runs") + "\n")
        return
    count = f"{len(live)}+" if len(live) == SHOWN_JOBS else str(len(live))
    write(ngettext("{count} job is still live:", "{count} jobs are still live:", len(live)).format(count=count) + "\n")
    rows = [(job["id"], job.get("owner"), state_word(job), age(job.get("started_at"))) for job in live]
    write(table([_("RUN"), _("USER"), _("PHASE"), _("AGE")], rows))


def write_drain(value: Mapping[str, Any]) -> None:
    write(drain_line(value) + "\n")
