"""What this console cannot do is refused, not silently left out."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.features.jobs.admission.context import AdmissionContext


def check(context: AdmissionContext) -> Iterator[Refusal]:
    spec = context.spec.spec
    if spec.data.environment is not None:
        yield Refusal(
            "sandbox-missing",
            _("the environment {name} runs code of the model, and this console has no sandbox").format(
                name=spec.data.environment
            ),
            _("the console's administrator can set TUNEPLANE_SANDBOX_IMAGE"),
            field="spec.data.environment",
        )
    for name in spec.secrets:
        yield Refusal(
            "secret-missing",
            _("there is no secret “{name}”").format(name=name),
            _("this console keeps no secrets; pass a value with --env if it may be seen by its readers"),
            field="spec.secrets",
        )
    asked = {
        "spec.evaluation": (
            bool(spec.evaluation.suites or spec.evaluation.on_checkpoint),
            _("evaluations that follow a run"),
        ),
        "spec.data.output_dataset": (spec.data.output_dataset is not None, _("datasets made by runs")),
        "spec.data.taskset": (spec.data.taskset is not None, _("task sets")),
    }
    for field, (wanted, what) in asked.items():
        if wanted:
            message = _("this console does not offer {what}").format(what=what)
            yield Refusal("spec-invalid", message, _("leave it out, or use a console that does"), field=field)
