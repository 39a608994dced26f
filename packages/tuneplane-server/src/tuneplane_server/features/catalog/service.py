"""The recipes this server publishes: the compiled index of the `tuneplane` it is installed with."""

from __future__ import annotations

import difflib
from typing import Any

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane.recipes import index


class CatalogService:
    def digest(self) -> str:
        """One digest over all recipes; client and server compare it first."""
        return index.catalog_digest()

    def methods(self) -> list[str]:
        return sorted(index.load_index()["methods"])

    def entry(self, method: str) -> dict[str, Any] | None:
        """`{manifest, manifest_digest, template_digest, digest}` (contract/recipe.py) or None."""
        return index.load_index()["methods"].get(method)

    def changes(self, method: str) -> list[Refusal]:
        """What of a published recipe is on this machine's disk no longer what its digest says, or not what this process started with.

        Reads the recipe's files: call it from a thread.
        """
        hint = _(
            "on the console's machine install its packages again, or in a checkout run make catalog; then restart the console"
        )
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
        methods = index.load_index()["methods"]
        return {
            "digest": self.digest(),
            "methods": {
                name: {
                    "version": entry["manifest"]["version"],
                    "digest": entry["digest"],
                    "manifest_digest": entry["manifest_digest"],
                    "template_digest": entry["template_digest"],
                }
                for name, entry in sorted(methods.items())
            },
        }
