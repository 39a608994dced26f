"""Gates judge the evaluation report that a run leaves: one that leaves none has nothing to judge."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.jobspec import Gate
from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.features.jobs.admission.context import AdmissionContext


def check(context: AdmissionContext) -> Iterator[Refusal]:
    gates = context.spec.spec.evaluation.gates
    if gates and context.entry is not None and not context.manifest["artifacts"]["evaluations"]:
        yield Refusal(
            "spec-invalid",
            _("{method} leaves no evaluation report, so that its gates would judge nothing").format(
                method=context.spec.spec.recipe.name
            ),
            _("leave them out here, and give them to the evaluation: tp eval RUN --gate"),
            field="spec.evaluation.gates",
        )
    for index, gate in enumerate(gates):
        problem = _problem(gate)
        if problem is not None:
            yield Refusal("spec-invalid", *problem, field=f"spec.evaluation.gates.{index}")


def _problem(gate: Gate) -> tuple[str, str] | None:
    """(what is wrong, what to do)."""
    bounds = _("give min or max")
    if gate.max_regression is not None:
        return _("no gate of this console compares with an earlier report: max_regression"), bounds
    if gate.min is None and gate.max is None:
        return _("the gate of {metric} has no bound").format(metric=gate.metric), bounds
    if gate.min is not None and gate.max is not None and gate.min > gate.max:
        return _("the gate of {metric} could never pass: min is above max").format(metric=gate.metric), ""
    return None
