"""Recipes of the organisation that were brought through the API: one tree of files, replaced as a whole.

`<storage root>/recipes/<token>/` is a tree and `<storage root>/recipes/current` names the one that counts, so that a crash leaves the tree of
before or of after, and every console of the installation sees the same. A tree that was replaced stays for a day: a console that has not
looked yet still reads it.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from tuneplane.contract.names import is_segment
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.lab.files import replace_file
from tuneplane.recipes.index import CATALOG, INDEX_FILE
from tuneplane.recipes.organisation import MAX_BYTES, MAX_FILES, compile_directory

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
        _check_names(files)
        if not files:
            (self._folder / _POINTER).unlink(missing_ok=True)
            return {"methods": {}}
        tree = self._folder / secrets.token_hex(8)
        try:
            for name, content in files.items():
                _write(tree / name, content)
            index = compile_directory(json.loads((CATALOG / INDEX_FILE).read_bytes()), tree)
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


def _check_names(files: Mapping[str, bytes]) -> None:
    size = sum(len(content) for content in files.values())
    if len(files) > MAX_FILES or size > MAX_BYTES:
        message = _("these are more than {files} files or {size} MB").format(files=MAX_FILES, size=MAX_BYTES >> 20)
        raise RefusedError([Refusal("recipe-invalid", message, field="files")])
    folders = {str(folder) for name in files for folder in PurePosixPath(name).parents}
    wrong = [name for name in files if not _is_sound(name) or name in folders]
    if wrong:
        message = _("“{name}” cannot be the path of a recipe's file").format(name=wrong[0][:80])
        hint = _("a path is <framework>/<method>/recipe.yaml, <framework>/<method>/template/… or the like")
        raise RefusedError([Refusal("recipe-invalid", message, hint, field="files")])


def _is_sound(name: str) -> bool:
    parts = PurePosixPath(name).parts
    plain = name == "/".join(parts) and 2 <= len(parts) <= 12 and len(name) <= 400 and name.isprintable()
    return plain and all(part not in (".", "..") and not part.startswith("/") and len(part) <= 200 for part in parts)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _below(refusal: Refusal, tree: Path) -> Refusal:
    """The refusal with paths as the sender knows them."""
    from dataclasses import replace

    def plain(text: str) -> str:
        return text.replace(f"{tree}/", "").replace(str(tree), ".")

    return replace(refusal, message=plain(refusal.message), file=plain(refusal.file))
