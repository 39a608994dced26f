"""The recipe is published here, unchanged, and both sides mean the same one: version and digest are equal."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.features.jobs.admission.context import AdmissionContext


def check(context: AdmissionContext) -> Iterator[Refusal]:
    wanted = context.spec.spec.recipe
    if context.entry is None:
        nearest = context.nearest_method
        hint = _("did you mean “{name}”?").format(name=nearest) if nearest else _("tp methods lists what there is")
        message = _("this server has no recipe “{name}”").format(name=wanted.name)
        yield Refusal("method-unknown", message, hint, field="spec.recipe.name")
        return
    yield from context.recipe_changes
    here = (context.manifest["version"], context.entry["digest"])
    if (wanted.version, wanted.digest) != here:
        yield Refusal(
            "catalog-mismatch",
            _(
                "the recipe {name} differs: the server has {version} ({digest}), the client {their_version} ({their_digest})"
            ).format(
                name=wanted.name,
                version=here[0],
                digest=here[1][:12],
                their_version=wanted.version,
                their_digest=wanted.digest[:12],
            ),
            _("bring client and server to the same version; then tp recipe lock {experiment}").format(
                experiment=context.spec.metadata.name
            ),
            field="spec.recipe.digest",
        )
