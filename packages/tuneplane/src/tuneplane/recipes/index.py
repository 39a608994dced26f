"""The compiled catalog: plain values from one JSON file. No pydantic and no YAML, so that every `tp` command may ask it.

`catalog/index.json` holds `methods` (name -> manifest with its digests), `schemas` (`<framework>/<version>` -> digest of its keys),
`files` (digests of the files it was made from, as written) and `digest` over all of it. `compile` makes it. The keys themselves, hundreds
for each framework, stay in `catalog/<framework>/schema-<version>.json` and are read by whoever checks a configuration of that framework.

Recipes of organisations (`organisation`) join this index when `TUNEPLANE_RECIPE_PATH` names directories of them; `home` says where a
recipe or a schema lies.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _, current_language
from tuneplane.quoted_words import system_words

CATALOG = Path(__file__).parent / "catalog"
INDEX_FILE = "index.json"
MANIFEST_FILE = "recipe.yaml"
COMMON_FILE = "common.yaml"  # beside the methods of a framework: what their manifests share
RECIPE_PATH_VARIABLE = "TUNEPLANE_RECIPE_PATH"

Entry = dict[str, Any]
_chosen_path: tuple[Path, ...] | None = None


@cache
def load_index(catalog: Path = CATALOG) -> dict[str, Any]:
    """The whole index; the values are shared, do not change them. Raises `RefusedError` when the recipes of an organisation do not
    make a catalog (`recipe-invalid`, `recipe-clash`)."""
    index = built_in_index(catalog)
    directories = recipe_path() if catalog == CATALOG else ()
    if not directories:
        return index
    from tuneplane.recipes.organisation import joined

    return joined(index, directories, kept=_chosen_path is None)


def built_in_index(catalog: Path = CATALOG) -> dict[str, Any]:
    """The index as it was compiled, without recipes of organisations."""
    index: dict[str, Any] = json.loads((catalog / INDEX_FILE).read_bytes())
    return index


def recipe_path() -> tuple[Path, ...]:
    """Directories with recipes of organisations: those that `use_recipe_path` was given, else those of `TUNEPLANE_RECIPE_PATH`."""
    return parse_recipe_path(os.environ.get(RECIPE_PATH_VARIABLE, "")) if _chosen_path is None else _chosen_path


def parse_recipe_path(text: str) -> tuple[Path, ...]:
    """Absolute directories of a colon-separated list, each once."""
    return tuple(dict.fromkeys(Path(item).expanduser().absolute() for item in text.split(":") if item.strip()))


def use_recipe_path(directories: Sequence[Path] | None) -> None:
    """From now on the catalog of this process has the recipes below these directories, whatever the environment says; None: what it says.

    Reads everything anew when next asked.
    """
    global _chosen_path
    _chosen_path = None if directories is None else tuple(directories)
    forget()


def forget() -> None:
    """Read the catalog anew when next asked."""
    load_index.cache_clear()
    load_schema.cache_clear()
    installed_changes.cache_clear()


def home(name: str, catalog: Path = CATALOG) -> tuple[Path, Mapping[str, str]]:
    """The directory in which a method or a schema file of the catalog lies, and the digests of the files there (path below it -> digest)."""
    index = load_index(catalog)
    root = index.get("homes", {}).get(name)
    return (catalog, index["files"]) if root is None else (Path(root), index["organisations"][root])


def organisation_of(method: str, catalog: Path = CATALOG) -> Path | None:
    """The organisation's directory that a method comes from; None for one that is built in."""
    root = load_index(catalog).get("homes", {}).get(method)
    return None if root is None else Path(root)


def methods(catalog: Path = CATALOG) -> list[str]:
    """Every method id, sorted."""
    return sorted(load_index(catalog)["methods"])


def entry(method: str, catalog: Path = CATALOG) -> Entry:
    """`{manifest, manifest_digest, template_digest, digest}`. Raises `RefusedError` (`method-unknown`) with the nearest name."""
    found: Entry | None = load_index(catalog)["methods"].get(method)
    if found is None:
        raise RefusedError([unknown_method(method, catalog)])
    return found


def catalog_digest(catalog: Path = CATALOG) -> str:
    """Digest of all methods and schemas: two sides with the same one agree on everything."""
    digest: str = load_index(catalog)["digest"]
    return digest


def config_keys(entry: Mapping[str, Any], version: str | None = None, catalog: Path = CATALOG) -> dict[str, Any] | None:
    """Configuration key -> {type, nullable, default, choices, min, max, …} of the framework's version; None when it has no schema.

    A key of a nested configuration is its dotted path. Raises `RefusedError` (`catalog-mismatch`) when the schema on the disk is not
    the one the index was made from.
    """
    manifest = entry["manifest"]
    framework, method = manifest["name"].split("/")
    method = manifest.get("keys_of") or method
    wanted = version or manifest["runtime"]["default_version"]
    if f"{framework}/{wanted}" not in load_index(catalog)["schemas"]:
        return None
    schema = load_schema(schema_file(framework, wanted), catalog)
    return {**schema["common"], **schema["methods"].get(method, {})}


def schema_file(framework: str, version: str) -> str:
    """Below the catalog."""
    return f"{framework}/schema-{version}.json"


@cache
def load_schema(name: str, catalog: Path = CATALOG) -> dict[str, Any]:
    """`{common, methods}` of a recorded schema; shared, do not change it."""
    from hashlib import sha256

    directory, files = home(name, catalog)
    try:
        data = (directory / name).read_bytes()
    except OSError as error:
        raise RefusedError([_changed(name.split("/")[0], f"{name}: {system_words(error)}")]) from None
    if sha256(data).hexdigest() != files[name]:
        raise RefusedError([_changed(name.split("/")[0], name)])
    schema: dict[str, Any] = json.loads(data)
    return schema


def prose(entry: Mapping[str, Any]) -> dict[str, Any]:
    """`{title, summary, params: {name: doc}}` in the reader's language."""
    manifest = entry["manifest"]
    docs = {name: param["doc"] for name, param in manifest["params"].items()}
    english = {"title": manifest["title"], "summary": manifest["summary"], "params": docs}
    translated = manifest["i18n"].get(current_language())
    return english if translated is None else {**translated, "params": {**docs, **translated["params"]}}


def verify(method: str, catalog: Path = CATALOG) -> list[Refusal]:
    """Whether the installed manifest and template are those the index was compiled from, and its entry what was compiled; empty when
    they are."""
    from tuneplane.contract.digests import digest_bytes, digest_json, digest_tree, recipe_digest
    from tuneplane.recipes.template import read_template

    found = entry(method, catalog)
    directory, files = home(method, catalog)
    written = [name for name in (f"{method.split('/')[0]}/{COMMON_FILE}", f"{method}/{MANIFEST_FILE}") if name in files]
    try:
        manifests = {name: digest_bytes((directory / name).read_bytes()) for name in written}
        template = digest_tree(read_template(directory / method / found["manifest"]["template"]))
    except OSError as error:
        return [_changed(method, f"{error.filename}: {system_words(error)}")]
    changed = []
    parts = digest_json(found["manifest"]), found["template_digest"]
    if parts[0] != found["manifest_digest"] or recipe_digest(*parts) != found["digest"]:
        changed.append(_changed(method, INDEX_FILE))
    changed += [_changed(method, Path(name).name) for name, digest in manifests.items() if digest != files[name]]
    if template != found["template_digest"]:
        changed.append(_changed(method, found["manifest"]["template"] + "/"))
    return changed


@cache
def installed_changes(method: str, digest: str) -> tuple[Refusal, ...]:
    """Like `verify`, remembered: for commands that look at many experiments. Empty for a recipe of another catalog than the
    installed one."""
    found = load_index()["methods"].get(method)
    return tuple(verify(method)) if found is not None and found["digest"] == digest else ()


def unknown_method(method: str, catalog: Path = CATALOG) -> Refusal:
    """The refusal for a method that the catalog does not have."""
    return Refusal(
        "method-unknown",
        _("there is no method “{method}”").format(method=method),
        nearest_hint(method, methods(catalog))
        or _("tp methods lists what there is; recipes of an organisation are found through TUNEPLANE_RECIPE_PATH"),
        field="recipe.name",
    )


def nearest(name: str, known: list[str]) -> str:
    """The known name most like `name`, or nothing."""
    from difflib import get_close_matches

    lowered = {item.lower(): item for item in reversed(known)}
    close = get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.6)
    if close:
        return lowered[close[0]]
    tails = [item for item in known if item.rpartition("/")[2] == name.rpartition("/")[2].lower()]
    return tails[0] if tails else ""


def nearest_hint(name: str, known: list[str]) -> str:
    close = nearest(name, known)
    return _("did you mean “{name}”?").format(name=close) if close else ""


def _changed(method: str, what: str) -> Refusal:
    return Refusal(
        "catalog-mismatch",
        _("the installed recipe {method} was changed: {what} is not what its digest says").format(
            method=method, what=what
        ),
        _("install tuneplane again; in a checkout of its source, make catalog"),
        field="recipe.digest",
        file=what if what == MANIFEST_FILE else "",
    )
