"""Compile the manifests into `catalog/index.json`: `python -m tuneplane.recipes.compile [--check]` (`make catalog`).

In a checkout it also writes `docs/<language>/reference/parameters.md` and the pages below `parameters/`. `--check` writes nothing and fails when something is not current.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from tuneplane.contract.digests import digest_bytes, digest_json, digest_tree, recipe_digest
from tuneplane.contract.names import is_segment
from tuneplane.contract.recipe import Manifest
from tuneplane.recipes.check_manifest import check_manifest, param_facts, schema_keys, unknown_lender
from tuneplane.recipes.index import CATALOG, COMMON_FILE, INDEX_FILE, MANIFEST_FILE, schema_file
from tuneplane.recipes.reference import render_reference
from tuneplane.recipes.template import read_template

API_VERSION = "tuneplane/catalog/v1"
SCHEMA_GLOB = "*/schema-*.json"


class CatalogError(Exception):
    """The manifests do not make a catalog. `problems`: (file, what is wrong with it), all of them."""

    def __init__(self, problems: list[tuple[Path, str]]) -> None:
        self.problems = problems
        super().__init__("\n".join(f"{path}: {problem}" for path, problem in problems))


def build_index(catalog: Path, below: Path | None = None) -> dict[str, Any]:
    """The index of every `<framework>/<method>/recipe.yaml` below `catalog`. Raises `CatalogError` with every problem found.

    `below`: the catalog that this one adds to. Its schemas and what its frameworks share hold here too; its recipes are not in the index.
    """
    try:
        own = read_schemas(catalog)
    except (KeyError, TypeError, AttributeError, ValueError, OSError) as error:
        raise CatalogError([(catalog, f"a schema-*.json is none: {error!r}")]) from None
    schemas = {**(read_schemas(below, _frameworks(catalog)) if below else {}), **own}
    entries: dict[str, Any] = {}
    files: dict[str, str] = {}
    problems: list[tuple[Path, str]] = []
    for path in sorted(catalog.glob(f"*/*/{MANIFEST_FILE}")):
        method = path.parent.relative_to(catalog).as_posix()
        try:
            entries[method] = compile_recipe(path, schemas, below)
        except (ValidationError, yaml.YAMLError, OSError, ValueError) as error:
            problems += [(path, reason) for reason in _reasons(error)]
            continue
        for written in _written(path):
            files[written.relative_to(catalog).as_posix()] = digest_bytes(written.read_bytes())
        problems += [
            (path, problem)
            for problem in check_manifest(entries[method], path.parent, schemas, translated=below is None)
        ]
    if problems:
        raise CatalogError(problems)
    for name in own:
        written = schema_file(*name.split("/"))
        files[written] = digest_bytes((catalog / written).read_bytes())
    digests = {name: digest_json(schema) for name, schema in own.items()}
    return {
        "apiVersion": API_VERSION,
        "digest": digest_of_catalog(entries, digests),
        "files": files,
        "methods": entries,
        "schemas": digests,
    }


def digest_of_catalog(entries: Mapping[str, Any], schemas: Mapping[str, str]) -> str:
    """One digest over all recipes and schemas (docs/reference/digests)."""
    return digest_json({"methods": {name: found["digest"] for name, found in entries.items()}, "schemas": schemas})


def compile_recipe(path: Path, schemas: Mapping[str, Any], below: Path | None = None) -> dict[str, Any]:
    """One entry: the manifest with its defaults filled in, and the digests over it and its template (docs/reference/digests)."""
    manifest = Manifest.model_validate(read_manifest(path, schemas, below)).to_json()
    if not is_segment(manifest["template"]):
        raise ValueError(f"template {manifest['template']} is not the name of a directory beside the manifest")
    manifest_digest = digest_json(manifest)
    template_digest = digest_tree(read_template(path.parent / manifest["template"]))
    return {
        "manifest": manifest,
        "manifest_digest": manifest_digest,
        "template_digest": template_digest,
        "digest": recipe_digest(manifest_digest, template_digest),
    }


def read_manifest(path: Path, schemas: Mapping[str, Any], below: Path | None = None) -> Any:
    """The manifest over what its framework's `common.yaml` says, and of each parameter what the framework's schema says.

    Mappings are merged key by key; any other value of the recipe replaces the shared one, and null takes it away. A parameter states
    its path, documentation and group; type, bounds, choices and default may be left to the schema.
    """
    value: Any = {}
    for written in _written(path, below):
        value = _merged(value, yaml.safe_load(written.read_bytes()))
    try:
        version = value["runtime"]["default_version"]
        lender = unknown_lender(value, version, schemas)
        keys = schema_keys(value, version, schemas) or {}
        silent = {name: param for name, param in value["params"].items() if "type" not in param}
        unknown = {name: param["path"] for name, param in silent.items() if param["path"] not in keys}
    except (KeyError, TypeError, ValueError, AttributeError):
        return value  # the model names what is missing or of the wrong shape, better than we could here
    if lender or unknown:
        absent = [f"parameter {name}: the framework has no key {path}" for name, path in unknown.items()]
        raise ValueError(lender or "; ".join(absent))
    for param in silent.values():
        param.update({name: fact for name, fact in param_facts(keys[param["path"]]).items() if fact is not None})
    return value


def _written(manifest: Path, below: Path | None = None) -> list[Path]:
    """The files that make one manifest, later ones over earlier ones."""
    framework = manifest.parent.parent
    shared = [below / framework.name / COMMON_FILE] if below else []
    return [*(path for path in (*shared, framework / COMMON_FILE) if path.is_file()), manifest]


def _frameworks(catalog: Path) -> frozenset[str]:
    return frozenset(path.parents[1].name for path in catalog.glob(f"*/*/{MANIFEST_FILE}"))


def _reasons(error: Exception) -> list[str]:
    """A sentence for each fault that the model found, else what the error says, in one line."""
    if isinstance(error, ValidationError):
        return [f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors()]
    return [" ".join(str(error).split())]


def _merged(below: Any, above: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    merged = {**below, **{key: _merged(below.get(key), value) for key, value in above.items()}}
    return {key: value for key, value in merged.items() if not (value is None and below.get(key) is not None)}


def read_schemas(catalog: Path, frameworks: frozenset[str] | None = None) -> dict[str, Any]:
    """`<framework>/<version>` -> keys, without where the bounds come from: that is for the people who keep the schema.

    `frameworks`: only of these.
    """
    schemas = {}
    for path in sorted(catalog.glob(SCHEMA_GLOB)):
        if frameworks is not None and path.parent.name not in frameworks:
            continue
        recorded = json.loads(path.read_text(encoding="utf-8"))
        schemas[f"{recorded['framework']}/{recorded['version']}"] = {
            "common": _without_sources(recorded["common"]),
            "methods": {method: _without_sources(keys) for method, keys in recorded["methods"].items()},
        }
    return schemas


def render_index(index: dict[str, Any]) -> str:
    """JSON with one line per method and schema: small, quick to read, and a diff names the methods that changed.

    Parameters keep the order of the manifest, which is the order people see them in.
    """
    lines = [f'"apiVersion": {_compact(index["apiVersion"])}', f'"digest": {_compact(index["digest"])}']
    for part in ("files", "methods", "schemas"):
        items = ",\n".join(f"{_compact(name)}: {_compact(value)}" for name, value in sorted(index[part].items()))
        lines.append(f'"{part}": {{\n{items}\n}}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def outputs(catalog: Path, checkout: Path | None) -> dict[Path, str]:
    """Every generated file with the text it should have."""
    index = build_index(catalog)
    written = {catalog / INDEX_FILE: render_index(index)}
    if checkout is not None:
        schemas = read_schemas(catalog)
        for language in ("en", "zh-Hans"):
            pages = checkout / "docs" / language / "reference"
            written |= {pages / name: text for name, text in render_reference(index, schemas, language).items()}
    return written


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    try:
        wanted = outputs(CATALOG, find_checkout())
    except CatalogError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if check and stale:
        sys.stderr.write(f"not current: {', '.join(str(path) for path in stale)}; run make catalog\n")
        return 1
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
        sys.stdout.write(f"wrote {path}\n")
    return 0


def find_checkout() -> Path | None:
    """The root of the source tree this module lies in, None when it is installed."""
    root = CATALOG.parents[5]
    return root if (root / "docs").is_dir() and (root / "packages" / "tuneplane").is_dir() else None


def _without_sources(keys: dict[str, Any]) -> dict[str, Any]:
    return {
        key: {name: value for name, value in spec.items() if name != "source"} for key, spec in sorted(keys.items())
    }


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
