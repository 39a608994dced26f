"""The recipes this server publishes: the compiled index of the `tuneplane` it is installed with, and the organisation's own.

Those come from the directories of `TUNEPLANE_RECIPE_PATH`, read at the start, and from what was published through the API, which every
console of the installation takes up within a second.
"""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.recipes import index
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.audit.service import AuditEntry, AuditService
from tuneplane_server.features.catalog.published import PublishedRecipes

LOOK_SECONDS = 1.0


class CatalogService:
    """`recipe_path`: directories of the organisation's recipes; `published`: those that came through the API."""

    def __init__(self, recipe_path: tuple[Path, ...], published: PublishedRecipes, audit: AuditService) -> None:
        self._recipe_path, self._published, self._audit = recipe_path, published, audit
        self._next_look = 0.0

    def load(self) -> None:
        """Read everything. Raises `RefusedError` when the recipes of the organisation are not sound."""
        self._look(again=True)
        index.load_index()

    def digest(self) -> str:
        """One digest over all recipes; client and server compare it first."""
        self._look()
        return index.catalog_digest()

    def methods(self) -> list[str]:
        self._look()
        return sorted(index.load_index()["methods"])

    def entry(self, method: str) -> dict[str, Any] | None:
        """`{manifest, manifest_digest, template_digest, digest}` (contract/recipe.py) or None."""
        self._look()
        return index.load_index()["methods"].get(method)

    def changes(self, method: str) -> list[Refusal]:
        """What of a published recipe is on this machine's disk no longer what its digest says, or not what this process started with.

        Reads the recipe's files: call it from a thread.
        """
        hint = _(
            "on the console's machine install its packages again, or in a checkout run make catalog; then restart the console"
        )
        if index.organisation_of(method) is not None:
            hint = _("restart the console, so that it reads the organisation's recipes anew")
        return [
            Refusal(
                change.code,
                _("on the console's machine: {what}").format(what=change.message),
                hint,
                field="spec.recipe.digest",
            )
            for change in index.verify(method)
        ]

    def nearest(self, method: str) -> str | None:
        """The published method whose name is most like a misspelt one."""
        found = difflib.get_close_matches(method, self.methods(), n=1)
        return found[0] if found else None

    def overview(self) -> dict[str, Any]:
        self._look()
        methods = index.load_index()["methods"]
        return {
            "digest": index.catalog_digest(),
            "methods": {
                name: {
                    "version": entry["manifest"]["version"],
                    "digest": entry["digest"],
                    "manifest_digest": entry["manifest_digest"],
                    "template_digest": entry["template_digest"],
                    "origin": "built-in" if index.organisation_of(name) is None else "organisation",
                }
                for name, entry in sorted(methods.items())
            },
        }

    # --- what is published through the API ------------------------------------------------------------------------

    async def files(self) -> dict[str, bytes]:
        """Path -> content of what was published through the API."""
        return await asyncio.to_thread(self._published.files)

    async def publish(self, principal: Principal, files: Mapping[str, bytes], address: str) -> dict[str, Any]:
        """Replace what was published through the API; returns the overview. Raises `RefusedError` and changes nothing when the recipes are
        not sound, or have a name that is built in or in `TUNEPLANE_RECIPE_PATH`."""
        await asyncio.to_thread(self._refuse_taken, files)
        found = await asyncio.to_thread(self._published.replace, files)
        await asyncio.to_thread(self.load)
        data = {"methods": sorted(found["methods"])[:100], "files": len(files)}
        await self._audit.record_alone(AuditEntry(principal.username, "catalog.publish", "organisation", address, data))
        return self.overview()

    def _refuse_taken(self, files: Mapping[str, bytes]) -> None:
        """Names of the directories in `TUNEPLANE_RECIPE_PATH` are taken, and so are their schemas."""
        self._look()
        homes: Mapping[str, str] = index.load_index().get("homes", {})
        set_up = {name for name, root in homes.items() if Path(root) in self._recipe_path}
        own = {name.removesuffix(f"/{index.MANIFEST_FILE}") for name in files}
        taken = sorted(set_up & own)
        if taken:
            message = _("{names} come from TUNEPLANE_RECIPE_PATH of the console already").format(names=", ".join(taken))
            raise RefusedError([Refusal("recipe-clash", message, _("publish them in one way only"), field="files")])

    def _look(self, *, again: bool = False) -> None:
        """Take up what another console published. Looked for once a second: `entry` is asked for every row of a listing."""
        now = time.monotonic()
        if now < self._next_look and not again:
            return
        self._next_look = now + LOOK_SECONDS
        published = self._published.current()
        wanted = (*self._recipe_path, published) if published is not None else self._recipe_path
        if index.recipe_path() != wanted:
            index.use_recipe_path(wanted)
