"""`tp admin quota set`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tuneplane.cli.admin.limit_values import DEFAULT, LimitType
from tuneplane.cli.admin.subjects import subject_options, subject_path
from tuneplane.cli.options import WholeNumber, json_option, server_option, tp_command
from tuneplane.cli.quota_text import FIELDS, noun, value_text, whose
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import fields, write, write_json
from tuneplane.i18n import _

_OPTIONS = {
    "gpus": ("--gpus", "whole", _("GPUs at once.")),
    "jobs": ("--jobs", "whole", _("Jobs at once.")),
    "queued_jobs": ("--queued-jobs", "whole", _("Jobs that may wait.")),
    "gpu_hours_day": ("--gpu-hours-day", "number", _("GPU-hours of a UTC day.")),
    "gpu_hours_month": ("--gpu-hours-month", "number", _("GPU-hours of a UTC month.")),
    "storage_gb": ("--storage-gb", "number", _("GB (10^9 bytes) of files, output and samples of runs.")),
    "profiles": ("--profiles", "names", _("Profiles that jobs may use.")),
    "images": ("--images", "names", _("Images that jobs may run in: registry/path/*, name:tag, …@sha256:*.")),
    "max_seconds": ("--max-duration", "duration", _("Longest run; also of jobs that name no duration.")),
    "max_priority": ("--max-priority", "whole", _("Highest priority, -100 to 100.")),
}


def _limit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for field, (option, kind, text) in reversed(_OPTIONS.items()):
        function = click.option(option, field, type=LimitType(kind), default=None, help=text)(function)
    return function


@tp_command(
    "tp admin quota set ada --gpus 8 --gpu-hours-month 2000",
    "tp admin quota set ada/lab --jobs 4 --max-duration 2d",
    "tp admin quota set --default user --gpus 4 --max-priority 0",
    "tp admin quota set ada --gpus none --jobs default",
    about=_(
        "Changes what is named and leaves the rest. none means no limit, default gives a field back. What runs goes on; "
        "what waits is started by the new figures."
    ),
)
@subject_options
@_limit_options
@click.option(
    "--if-version",
    type=WholeNumber(0),
    default=None,
    help=_("Only if the quota is still at this version (quota show)."),
)
@server_option
@json_option
@click.pass_context
def command(
    context: click.Context,
    whose: str | None,
    default: str | None,
    if_version: int | None,
    server: str | None,
    as_json: bool,
    **limits: Any,
) -> None:
    path = subject_path(whose, default)
    given = {field: limits[field] for field in FIELDS if _is_given(context, field)}
    if not given:
        raise click.UsageError(_("name a limit to change, for example --gpus 8"))
    with open_administration(server) as console:
        before = console.quota(path)
        own = {field: value for field, value in {**before["own"], **given}.items() if value != DEFAULT}
        quota = console.set_quota(path, own, before["version"] if if_version is None else if_version)
    if as_json:
        write_json(quota)
    else:
        _write_text(quota, given)


def _is_given(context: click.Context, field: str) -> bool:
    source = context.get_parameter_source(field)
    return source is not None and source is not click.core.ParameterSource.DEFAULT


def _write_text(quota: Any, given: dict[str, Any]) -> None:
    write(_("the quota of {whose} is now:").format(whose=whose(quota)) + "\n")
    write(fields([(f"  {noun(field)}", value_text(field, quota["limits"].get(field))) for field in given]))
