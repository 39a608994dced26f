"""Recipes of the organisation that were brought through the API: one tree of files, replaced as a whole.

`<storage root>/recipes/<token>/` is a tree and `<storage root>/recipes/current` names the one that counts, so that a crash leaves the tree of
before or of after, and every console of the installation sees the same. A tree that was replaced stays for a day: a console that has not
looked yet still reads it.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuneplane.contract.names import is_segment
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.lab.files import replace_file
from tuneplane.recipes.index import built_in_index
from tuneplane.recipes.organisation import compile_directory
from tuneplane.recipes.recipe_files import write_files

KEPT_SECONDS = 24 * 3600.0
_POINTER = "current"


class PublishedRecipes:
    """Reads and writes files: call it from a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def current(self) -> Path | None:
        """The tree that counts; None when nothing is published."""
        try:
            token = (self._folder / _POINTER).read_text(encoding="ascii").strip()
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        return self._folder / token if is_segment(token) else None

    def files(self) -> dict[str, bytes]:
        """Path below the tree -> content, of what is published."""
        tree = self.current()
        if tree is None:
            return {}
        found = (path for path in sorted(tree.rglob("*")) if path.is_file())
        return {path.relative_to(tree).as_posix(): path.read_bytes() for path in found}

    def replace(self, files: Mapping[str, bytes]) -> dict[str, Any]:
        """Publish these files in place of what was published; returns the index of what they are. No files: publish nothing.

        Raises `RefusedError` (`recipe-invalid`, `recipe-clash`) and changes nothing when they are not sound.
        """
        if not files:
            (self._folder / _POINTER).unlink(missing_ok=True)
            return {"methods": {}}
        tree = self._folder / secrets.token_hex(8)
        try:
            write_files(tree, files)
            index = compile_directory(built_in_index(), tree)
            replace_file(self._folder / _POINTER, tree.name.encode())
        except RefusedError as error:
            shutil.rmtree(tree, ignore_errors=True)
            raise RefusedError([_below(refusal, tree) for refusal in error.refusals]) from None
        except BaseException:
            shutil.rmtree(tree, ignore_errors=True)
            raise
        self._forget_old(tree)
        return index

    def _forget_old(self, current: Path) -> None:
        before = time.time() - KEPT_SECONDS
        for tree in self._folder.iterdir():
            if tree != current and tree.is_dir() and tree.stat().st_mtime < before:
                shutil.rmtree(tree, ignore_errors=True)


def _below(refusal: Refusal, tree: Path) -> Refusal:
    """The refusal with paths as the sender knows them."""
    from dataclasses import replace

    def plain(text: str) -> str:
        return text.replace(f"{tree}/", "").replace(str(tree), ".")

    return replace(refusal, message=plain(refusal.message), file=plain(refusal.file))
