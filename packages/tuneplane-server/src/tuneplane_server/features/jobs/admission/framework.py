"""The framework is the recipe's, in a version that the recipe still offers, under its runtime id."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.features.jobs.admission.context import AdmissionContext


def check(context: AdmissionContext) -> Iterator[Refusal]:
    if context.entry is None:
        return
    framework, recipe = context.spec.spec.framework, context.spec.spec.recipe.name
    if framework.kind != context.manifest["framework"]:
        yield Refusal(
            "spec-invalid",
            _("the recipe {recipe} is of the framework {framework}, not {other}").format(
                recipe=recipe, framework=context.manifest["framework"], other=framework.kind
            ),
            field="spec.framework.kind",
        )
        return
    version = context.version
    relock = _("tp recipe lock {experiment}").format(experiment=context.spec.metadata.name)
    if version is None or version["status"] == "sunset":
        offered = [name for name, item in context.manifest["runtime"]["versions"].items() if item["status"] != "sunset"]
        message = _("{recipe} does not offer {framework} {version} any more; it offers {offered}").format(
            recipe=recipe, framework=framework.kind, version=framework.version, offered=", ".join(offered) or "-"
        )
        yield Refusal("runtime-removed", message, relock, field="spec.framework.version")
    elif framework.runtime_id is not None and framework.runtime_id != version["runtime_id"]:
        message = _("{framework} {version} is the runtime {runtime_id}, not {other}").format(
            framework=framework.kind,
            version=framework.version,
            runtime_id=version["runtime_id"],
            other=framework.runtime_id,
        )
        yield Refusal("lock-stale", message, relock, field="spec.framework.runtime_id")
