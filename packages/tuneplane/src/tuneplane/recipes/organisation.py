"""Recipes of organisations: directories laid out like the catalog, compiled with the same checks when they are read.

What they hold joins the built-in index; the same files give the same digests on every machine. A client keeps what it compiled under
the digest of the files it was made from, so that only the first command after a change pays for it. Nothing of an organisation
replaces anything built in: names that clash are refused, and its methods run on the adapters that this client has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from errno import ELOOP
from hashlib import sha256
from pathlib import Path
from typing import Any

from tuneplane import __version__
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.quoted_words import system_words
from tuneplane.recipes.index import CATALOG, COMMON_FILE, MANIFEST_FILE
from tuneplane.recipes.template import LEFT_OUT

TEMPLATE = "template"  # what a template's directory is called; what else lies beside a manifest is nobody's business
MAX_FILES = 5000
MAX_BYTES = 32 * 1024 * 1024
KEPT = 16  # compiled catalogs that a client keeps
_PARTS = ("digest", "methods", "schemas", "homes", "organisations")


def joined(built_in: Mapping[str, Any], directories: Sequence[Path], *, kept: bool) -> dict[str, Any]:
    """The index of the built-in catalog and of all `directories`, whose parts are named beside it: `homes` (method or schema file ->
    directory), `organisations` (directory -> digests of its files).

    `kept`: look for it in the user's home first, and keep it there. Raises `RefusedError` with everything that is wrong with the directories.
    """
    key = _key(built_in, {directory: contents(directory) for directory in directories})
    folder = _folder() if kept else None
    added = _read_kept(folder, key)
    if added is None:
        added = _compile(built_in, directories)
        _keep(folder, key, added)
    return {
        **built_in,
        **added,
        "methods": {**built_in["methods"], **added["methods"]},
        "schemas": {**built_in["schemas"], **added["schemas"]},
    }


def compile_directory(built_in: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """The index of one organisation's directory by itself. Raises `RefusedError`: `recipe-invalid` for every fault of its manifests and
    templates, `recipe-clash` for names that are built in."""
    from tuneplane.recipes.compile import CatalogError, build_index

    contents(directory)
    try:
        index = build_index(directory, CATALOG)
    except CatalogError as error:
        raise RefusedError([_invalid(what, str(path)) for path, what in error.problems]) from None
    refusals = [
        *_without_adapter(index["methods"], directory),
        *_elsewhere(index["methods"], directory),
        *(_clash(name, _("built in"), directory) for name in index["methods"] if name in built_in["methods"]),
        *(_clash(name, _("built in"), directory) for name in index["schemas"] if name in built_in["schemas"]),
    ]
    if refusals:
        raise RefusedError(refusals)
    return index


def _compile(built_in: Mapping[str, Any], directories: Sequence[Path]) -> dict[str, Any]:
    from tuneplane.recipes.compile import digest_of_catalog
    from tuneplane.recipes.index import schema_file

    added: dict[str, Any] = {"methods": {}, "schemas": {}, "homes": {}, "organisations": {}}
    refusals: list[Refusal] = []
    for directory in directories:
        try:
            index = compile_directory(built_in, directory)
        except RefusedError as error:
            refusals += error.refusals
            continue
        for part in ("methods", "schemas"):
            for name, value in index[part].items():
                where = name if part == "methods" else schema_file(*name.split("/"))
                if where in added["homes"]:
                    refusals.append(_clash(name, added["homes"][where], directory))
                added[part][name] = value
                added["homes"][where] = str(directory)
        added["organisations"][str(directory)] = index["files"]
    if refusals:
        raise RefusedError(refusals)
    everything = {part: {**built_in[part], **added[part]} for part in ("methods", "schemas")}
    return {"digest": digest_of_catalog(everything["methods"], everything["schemas"]), **added}


def _without_adapter(methods: Mapping[str, Any], directory: Path) -> list[Refusal]:
    from tuneplane.adapters import FRAMEWORKS

    return [
        _invalid(
            f"this client has no adapter for the framework {entry['manifest']['framework']}; a recipe uses one of "
            + ", ".join(sorted(FRAMEWORKS)),
            str(directory / name / MANIFEST_FILE),
        )
        for name, entry in methods.items()
        if entry["manifest"]["framework"] not in FRAMEWORKS
    ]


def _elsewhere(methods: Mapping[str, Any], directory: Path) -> list[Refusal]:
    return [
        _invalid(f"its template must be called {TEMPLATE}", str(directory / name / MANIFEST_FILE))
        for name, entry in methods.items()
        if entry["manifest"]["template"] != TEMPLATE
    ]


def contents(directory: Path) -> dict[str, str]:
    """Path below the directory -> digest, of every file that its catalog is made of, and of nothing that lies beside. Raises
    `RefusedError` (`recipe-invalid`), also for symbolic links: they would bring in what is not the organisation's."""
    if not directory.is_dir():
        message = _("there is no directory {path}").format(path=directory)
        raise RefusedError([Refusal("recipe-invalid", message, _path_hint(), file=str(directory))])
    found: dict[str, str] = {}
    size = 0
    try:
        manifests = sorted(directory.glob(f"*/*/{MANIFEST_FILE}"))
        shared = [*directory.glob(f"*/{COMMON_FILE}"), *directory.glob("*/schema-*.json")]
        templates = (path for manifest in manifests for path in (manifest.parent / TEMPLATE).rglob("*"))
        for path in (*shared, *manifests, *templates):
            below = path.relative_to(directory)
            if LEFT_OUT.intersection(below.parts) or path.suffix in (".pyc", ".pyo"):
                continue
            for part in (directory / parent for parent in (below, *below.parents[:-1])):
                if part.is_symlink():
                    raise OSError(ELOOP, "is a symbolic link", str(part))
            if not path.is_file():
                continue
            size += path.stat().st_size
            if len(found) >= MAX_FILES or size > MAX_BYTES:
                raise RefusedError([_too_much(directory)])
            found[below.as_posix()] = sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise RefusedError([_invalid(system_words(error), str(error.filename or directory))]) from None
    if not manifests:
        message = _("there are no recipes in {path}: none of its files is called <framework>/<method>/{name}")
        message = message.format(path=directory, name=MANIFEST_FILE)
        raise RefusedError([Refusal("recipe-invalid", message, _path_hint(), file=str(directory))])
    return found


def _key(built_in: Mapping[str, Any], contents: Mapping[Path, Mapping[str, str]]) -> str:
    """Digest of everything that the compiled catalog follows from."""
    made_of = [
        __version__,
        built_in["digest"],
        built_in["files"],
        [[str(path), files] for path, files in contents.items()],
    ]
    return sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()


def _folder() -> Path | None:
    from tuneplane.client.errors import ConsoleError
    from tuneplane.client.servers import home

    try:
        return home() / "cache" / "recipes"
    except ConsoleError:  # no home directory: compiled each time
        return None


def _read_kept(folder: Path | None, key: str) -> dict[str, Any] | None:
    """What was kept under the key; None when there is nothing, or not what was written there."""
    if folder is None:
        return None
    try:
        value = json.loads((folder / f"{key}.json").read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) and all(part in value for part in _PARTS) else None


def _keep(folder: Path | None, key: str, added: Mapping[str, Any]) -> None:
    """Best effort: a home that cannot be written costs the next command a compilation."""
    if folder is None:
        return
    from tuneplane.lab.files import replace_file

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(folder / f"{key}.json", json.dumps(added, ensure_ascii=False).encode(), 0o600)
        newest_first = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in newest_first[KEPT:]:
            old.unlink(missing_ok=True)
    except OSError:
        return


def _invalid(what: str, file: str) -> Refusal:
    return Refusal(
        "recipe-invalid",
        _("the organisation's recipe is not sound: {what}").format(what=what),
        _("mend it, and check it with: tp recipe compile <directory>"),
        file=file,
    )


def _clash(name: str, other: str, directory: Path) -> Refusal:
    file = directory / name / MANIFEST_FILE
    return Refusal(
        "recipe-clash",
        _("there are two of {name}: one here, the other {where}").format(name=name, where=other),
        _("give the organisation's own another name; nothing replaces a recipe"),
        file=str(file if file.is_file() else directory),
    )


def _too_much(directory: Path) -> Refusal:
    message = _("{path} holds more than {files} files or {size} MB").format(
        path=directory, files=MAX_FILES, size=MAX_BYTES // 1024 // 1024
    )
    hint = _("recipes are small: keep data and models elsewhere")
    return Refusal("recipe-invalid", message, hint, file=str(directory))


def _path_hint() -> str:
    return _("TUNEPLANE_RECIPE_PATH names directories that hold <framework>/<method>/recipe.yaml, colon separated")
