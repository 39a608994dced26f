"""`recipe.lock.json` (surface §1): pins a recipe's digests and the framework version. A lock locks."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tuneplane.contract.base import MethodId, Model, Segment, Sha256
from tuneplane.contract.words import LOCK_API_VERSION


class LockedRecipe(Model):
    name: MethodId
    version: str
    digest: Sha256
    manifest_digest: Sha256
    template_digest: Sha256


class LockedFramework(Model):
    kind: Segment
    version: str
    runtime_id: Segment


class ParamBinding(Model):
    path: str
    type: Literal["int", "float", "bool", "str", "enum"]


class Bindings(Model):
    params: dict[str, ParamBinding] = Field(default_factory=dict)
    entrypoint: str


class Requires(Model):
    core: str  # lowest client version that understands this lock


class RecipeLock(Model):
    apiVersion: Literal["tuneplane/recipe-lock/v1"] = LOCK_API_VERSION  # noqa: N815 - wire name
    recipe: LockedRecipe
    framework: LockedFramework
    bindings: Bindings
    requires: Requires
    created_by: str
