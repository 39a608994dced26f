"""Roles are the recipe's; with several pools every one of them has a pool."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.features.jobs.admission.context import AdmissionContext


def check(context: AdmissionContext) -> Iterator[Refusal]:
    if context.entry is None:
        return
    resources, known = context.spec.spec.resources, context.manifest["roles"]
    hint = _("roles of {recipe}: {roles}").format(recipe=context.spec.spec.recipe.name, roles=", ".join(known))
    for role in sorted(set(resources.roles) - set(known)):
        message = _("the recipe has no role “{role}”").format(role=role)
        yield Refusal("roles-invalid", message, hint, field=f"spec.resources.roles.{role}")
    missing = sorted(set(known) - set(resources.roles)) if len(resources.pools) > 1 else []
    if missing:
        message = _("with several pools every role needs one; without: {roles}").format(roles=", ".join(missing))
        yield Refusal("roles-invalid", message, hint, field="spec.resources.roles")
