"""What is to be done once the run has succeeded: an export, of a recipe that has one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from tuneplane.contract.export import ExportStep
from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.features.jobs.admission.action import no_export
from tuneplane_server.features.jobs.admission.context import AdmissionContext

EXPORT = "export"


def check(context: AdmissionContext) -> Iterator[Refusal]:
    spec = context.spec.spec
    for number, step in enumerate(spec.lifecycle.on_success):
        field = f"spec.lifecycle.on_success.{number}"
        if list(step) != [EXPORT]:
            message = _("a step after the run is {{export: {{…}}}}, not {given}").format(given=_shown(step))
            yield Refusal("spec-invalid", message, _("leave it out, or use a console that does"), field=field)
            continue
        yield from _form(step[EXPORT], f"{field}.{EXPORT}")
        if spec.action is not None or (context.entry is not None and EXPORT not in context.manifest["lifecycle"]):
            yield replace(no_export(spec.recipe.name), field=field)


def _form(value: Any, field: str) -> Iterator[Refusal]:
    try:
        ExportStep.model_validate(value or {})
    except ValidationError as error:
        for found in error.errors():
            where = ".".join([field, *map(str, found["loc"])])
            yield Refusal("spec-invalid", found["msg"], field=where)


def _shown(step: dict[str, Any]) -> str:
    return "{" + ", ".join(sorted(map(str, step)))[:60] + "}"
