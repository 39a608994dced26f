"""`tp export`: a checkpoint of a run becomes a Hugging Face directory, by a run of its own."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import click

from tuneplane.cli.dry_run import section, shell
from tuneplane.cli.job.follow_up import after, follow_up_options
from tuneplane.cli.job.ids import find_job
from tuneplane.cli.options import Number, WholeNumber, job_argument, json_option, server_option, tp_command
from tuneplane.cli.session import open_console
from tuneplane.cli.text import clean, fields, write, write_json
from tuneplane.client.replies import to_refusal
from tuneplane.client.types import ExportDryRun, Job
from tuneplane.contract.refusals import RefusedError
from tuneplane.contract.words import ENV_WORK_DIR
from tuneplane.i18n import _

DTYPES = ("float32", "bfloat16", "float16")


@tp_command(
    "tp export 06fq9k2m",
    "tp export 06fq9k2m --step 200 --merge-lora --wait",
    about=_(
        "Makes a new run of the same recipe and runtime, which writes exports/<name> in its output directory, and prints its id."
        " Without --step: the newest complete checkpoint, or the model that the run ended with when it saved none."
        " A next run names it with --model run/<id>/export. JOB is a run id or its unique beginning."
    ),
)
@job_argument
@click.option(
    "--step",
    type=WholeNumber(0),
    default=None,
    help=_("Export the checkpoint of this step; tp job artifacts shows them."),
)
@click.option("--merge-lora", is_flag=True, help=_("Merge a LoRA adapter into its base model."))
@click.option("--dtype", type=click.Choice(DTYPES), default=None, help=_("Number format; default: as the weights are."))
@click.option("--name", default=None, help=_("Name of the directory; default: after the step."))
@click.option("--profile", default=None, metavar="PROFILE", help=_("Where to run; default: cpu."))
@click.option("--cpus", type=WholeNumber(1, 4096), default=None, help=_("CPUs of the machine."))
@click.option("--memory-gb", type=Number(min=0.1, max=65536), default=None, help=_("Memory of the machine."))
@click.option(
    "--dry-run", is_flag=True, help=_("Show the JobSpec, the admission's answer and the command; change nothing.")
)
@follow_up_options
@server_option
@json_option
def command(job: str, wait: bool, dry_run: bool, server: str | None, as_json: bool, **options: Any) -> int | None:
    wanted = {name: value for name, value in options.items() if value is not None and value is not False}
    with open_console(server) as console:
        run = find_job(console, job)
        if dry_run:
            _show(console.export_plan(run, wanted), as_json=as_json)
            return None
        answer = console.export(run, wanted, str(uuid4()))
        return after(console, answer, _made(answer, run), wait=wait, as_json=as_json)


def _made(job: Job, run: str) -> str:
    action = (((job.get("spec") or {}).get("spec")) or {}).get("action") or {}
    said = _("a new run, which exports {source} to exports/{name}")
    return said.format(source=action.get("source", run), name=action.get("name", "?"))


def _show(answer: ExportDryRun, *, as_json: bool) -> None:
    """Raises `RefusedError` with all refusals, after showing what could be worked out."""
    if as_json:
        write_json(answer)
    else:
        _write(answer)
    refusals = [to_refusal(item) for item in answer.get("refusals") or []]
    if refusals:
        raise RefusedError(refusals)


def _write(answer: ExportDryRun) -> None:
    spec, plan = answer["jobspec"]["spec"], answer.get("plan") or {}
    action = spec["action"]
    rows = [
        (_("source"), action["source"]),
        (_("directory"), f"exports/{action['name']}"),
        (_("merge LoRA"), _("yes") if action.get("merge_lora") else None),
        (_("number format"), action.get("dtype")),
        (_("runtime"), plan.get("image") or plan.get("runtime_id")),
        (_("machine"), ", ".join(f"{name} {value}" for name, value in spec["resources"]["pools"][0].items())),
    ]
    section(_("Export"), fields(rows).rstrip())
    told = [_("admitted") if answer["admitted"] else _("refused; the reasons follow")]
    told += [str(item["text"]) for item in (answer.get("approval"), answer.get("waiting")) if item]
    section(_("Admission"), "\n".join(told))
    if plan.get("argv_preview"):
        section(_("Command"), f"cd ${ENV_WORK_DIR}/export\n{shell(plan['argv_preview'])}")
        section(_("Environment"), fields((name, clean(value)) for name, value in plan["env"].items()).rstrip())
    for name in sorted(plan.get("files") or {}):
        write(_("File {name}").format(name=name) + "\n")
