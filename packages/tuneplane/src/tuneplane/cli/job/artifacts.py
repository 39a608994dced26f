"""`tp job artifacts`."""

from __future__ import annotations

from tuneplane.cli.job.ids import find_job
from tuneplane.cli.options import job_argument, json_option, server_option, tp_command
from tuneplane.cli.session import open_console
from tuneplane.cli.text import fields, note, table, write, write_json
from tuneplane.i18n import _
from tuneplane.lab.plan import show_size


@tp_command(
    "tp job artifacts 06fq9k2m",
    "tp job artifacts 06fq9k2m --json",
    about=_("Also of failed and cancelled jobs. A checkpoint that a job cannot resume from says why."),
)
@job_argument
@server_option
@json_option
def command(job: str, server: str | None, as_json: bool) -> None:
    with open_console(server) as console:
        found = console.artifacts(find_job(console, job))
    if as_json:
        write_json(found)
        return
    if not found["files"] and not found["checkpoints"]:
        note(_("nothing yet"))
        return
    write(fields([(_("directory"), found.get("out_dir"))]))
    if found["checkpoints"]:
        rows = [
            (
                item.get("attempt"),
                item["step"],
                _("complete") if item["complete"] else _("not complete: {why}").format(why=item.get("problem") or "?"),
                _size(item.get("size")),
                item["path"],
            )
            for item in found["checkpoints"]
        ]
        write("\n" + table([_("ATTEMPT"), _("STEP"), _("STATE"), _("SIZE"), _("CHECKPOINT")], rows))
    if found.get("exports"):
        rows = [
            (item.get("attempt"), item["files"], _size(item["size"]), item["path"])
            for item in found.get("exports") or []
        ]
        write("\n" + table([_("ATTEMPT"), _("FILES"), _("SIZE"), _("EXPORT")], rows))
    if found["files"]:
        rows = [
            (item.get("attempt"), show_size(item["size"]), (item.get("sha256") or "-")[:12], item["path"])
            for item in found["files"]
        ]
        write("\n" + table([_("ATTEMPT"), _("SIZE"), "SHA-256", _("FILE")], rows))


def _size(size: int | None) -> str | None:
    return None if size is None else show_size(size)
