"""The configuration fits the recipe's parameters: the same check as `tp validate`, on this server's catalog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tuneplane.contract.refusals import Refusal
from tuneplane.recipes.validate import check_config, check_hyperparams
from tuneplane_server.features.jobs.admission.context import AdmissionContext


def check(context: AdmissionContext) -> Iterator[Refusal]:
    if context.entry is None or context.spec.spec.action is not None:  # nothing is trained
        return
    spec = context.spec.spec
    version = spec.framework.version if context.version is not None else None
    paths = {param["path"] for name, param in context.manifest["params"].items() if name in spec.hyperparams}
    for refusal in check_config(context.entry, spec.config, {}, None, version):
        # A required parameter may come by `--set` instead of by config.yaml.
        if not (refusal.code == "param-required" and refusal.field in paths):
            yield replace(refusal, field=f"spec.config.{refusal.field}" if refusal.field else "spec.config")
    for refusal in check_hyperparams(context.entry, spec.hyperparams, version):
        yield replace(refusal, field=f"spec.hyperparams.{refusal.field}" if refusal.field else "spec.hyperparams")
