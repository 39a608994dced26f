"""This client's catalog beside the console's, compared before anything is uploaded: one digest, and the recipe in question where it differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane.recipes.index import RECIPE_PATH_VARIABLE, catalog_digest, organisation_of

if TYPE_CHECKING:
    from tuneplane.client.http import Console
    from tuneplane.lab.check import Checked


def compare_catalogs(console: Console, checked: Checked, refusals: list[Refusal]) -> list[Refusal]:
    """`refusals` of a submission with what the comparison adds: a recipe that only one side has, or that is another on the console.

    Catalogs may differ as long as the experiment's recipe is the same on both sides.
    """
    if not checked.method or console.server_info().get("catalog_digest") == catalog_digest():
        return refusals
    offered = console.catalog()["methods"].get(checked.method)
    if checked.entry is None:
        return [_known_there(refusal, checked.method) if offered else refusal for refusal in refusals]
    if offered is None:
        return [*refusals, _missing_there(checked.method)]
    if offered["digest"] != checked.entry["digest"]:
        return [*refusals, _another_there(checked, offered)]
    return refusals


def _known_there(refusal: Refusal, method: str) -> Refusal:
    if refusal.code != "method-unknown":
        return refusal
    message = _("the console has the recipe {method}, and this client does not").format(method=method)
    hint = _("get the organisation's recipes with tp recipe fetch <directory>, and name it in {variable}")
    return replace(refusal, message=message, hint=hint.format(variable=RECIPE_PATH_VARIABLE))


def _missing_there(method: str) -> Refusal:
    home = organisation_of(method)
    if home is None:
        message = _("this server has no recipe “{name}”").format(name=method)
        hint = _("bring client and server to the same version")
    else:
        message = _("the console has no recipe {method}, which this client has from {path}").format(
            method=method, path=home
        )
        hint = _("an administrator publishes it with: tp recipe publish {path}").format(path=home)
    return Refusal("method-unknown", message, hint, field="spec.recipe.name")


def _another_there(checked: Checked, offered: Mapping[str, Any]) -> Refusal:
    """In admission's words: said once, when both say it."""
    assert checked.entry is not None
    here = checked.entry
    message = _(
        "the recipe {name} differs: the server has {version} ({digest}), the client {their_version} ({their_digest})"
    ).format(
        name=checked.method,
        version=offered["version"],
        digest=offered["digest"][:12],
        their_version=here["manifest"]["version"],
        their_digest=here["digest"][:12],
    )
    hint = _("bring client and server to the same version; then tp recipe lock {experiment}").format(
        experiment=checked.experiment.name
    )
    if organisation_of(checked.method) is not None:
        hint = _("bring the organisation's recipes of both sides to the same state; then tp recipe lock {experiment}")
        hint = hint.format(experiment=checked.experiment.name)
    return Refusal("catalog-mismatch", message, hint, field="spec.recipe.digest")
