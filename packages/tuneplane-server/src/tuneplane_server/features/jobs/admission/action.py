"""A job that exports a checkpoint: the recipe can, the checkpoint is of a kind it knows, and one machine does it."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.export import ExportLifecycle
from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.features.jobs.admission.context import AdmissionContext


def check(context: AdmissionContext) -> Iterator[Refusal]:
    action = context.spec.spec.action
    if action is None or context.entry is None:
        return
    recipe, source = context.spec.spec.recipe.name, context.references.export
    offered = context.manifest["lifecycle"].get("export")
    if offered is None:
        yield no_export(recipe)
        return
    if sum(pool.nodes for pool in context.pools) > 1:
        message = _("an export runs on one machine")
        yield Refusal("pool-impossible", message, _("ask for one machine"), field="spec.resources.pools")
    if source is None:
        return  # said already
    layouts = ExportLifecycle.model_validate(offered).layouts
    if source.layout.layout not in layouts:
        message = _("the recipe {name} does not export checkpoints of the layout {layout}").format(
            name=recipe, layout=source.layout.layout
        )
        hint = _("it exports: {layouts}").format(layouts=", ".join(layouts))
        yield Refusal("export-impossible", message, hint, field="spec.action.source")
    elif action.merge_lora and not source.layout.adapter:
        message = _("{text} holds no LoRA adapter, so there is nothing to merge").format(text=action.source)
        yield Refusal("export-impossible", message, _("leave --merge-lora out"), field="spec.action.merge_lora")


def no_export(recipe: str) -> Refusal:
    return Refusal(
        "export-impossible",
        _("the recipe {name} cannot export").format(name=recipe),
        _("its runs save their model in a form of their own: tp job download gets the files"),
        field="spec.action",
    )
