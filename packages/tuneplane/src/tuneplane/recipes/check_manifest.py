"""What a manifest must be beyond its shape: true to the framework's schema, complete in both languages, at one with its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tuneplane.contract.words import CONFIG_FILE
from tuneplane.recipes.validate import owning

CANONICAL_PREFIXES = ("train/", "validation/", "system/")
REQUIRED_FILES = (CONFIG_FILE, "README.md")
BOUNDS = {"min": "min", "max": "max", "exclusive_min": "exclusive_min", "exclusive_max": "max"}


def check_manifest(
    entry: Mapping[str, Any], directory: Path, schemas: Mapping[str, Any], *, translated: bool = True
) -> list[str]:
    """Sentences, empty when the manifest is sound. `schemas`: `<framework>/<version>` -> {common, methods}.

    `translated`: Chinese has to be there too, as in our own recipes.
    """
    manifest = entry["manifest"]
    return [
        *_check_names(manifest, directory),
        *_check_runtime(manifest, schemas),
        *_check_prose(manifest, translated=translated),
        *_check_metrics(manifest),
        *(
            problem
            for version in manifest["runtime"]["versions"]
            for problem in _check_params(manifest, version, schemas)
        ),
        *_check_template(manifest, directory / manifest["template"]),
    ]


def schema_keys(manifest: Mapping[str, Any], version: str, schemas: Mapping[str, Any]) -> dict[str, Any] | None:
    """Configuration key -> spec of one framework version, None when there is no schema of it."""
    framework, method = manifest["name"].split("/")
    schema = schemas.get(f"{framework}/{version}")
    method = manifest.get("keys_of") or method
    return None if schema is None else {**schema["common"], **schema["methods"].get(method, {})}


def _check_names(manifest: Mapping[str, Any], directory: Path) -> Iterator[str]:
    name = manifest["name"]
    if directory.parts[-2:] != tuple(name.split("/")):
        yield f"name {name} does not match the directory"
    if name.split("/")[0] != manifest["framework"]:
        yield f"framework {manifest['framework']} does not match the name {name}"


def _check_runtime(manifest: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    runtime = manifest["runtime"]
    if runtime["default_version"] not in runtime["versions"]:
        yield f"default version {runtime['default_version']} is not in the runtime matrix"
    for version, details in runtime["versions"].items():
        if manifest["adapter_options"]["config_mode"] != "none" and f"{manifest['framework']}/{version}" not in schemas:
            yield f"there is no schema of {manifest['framework']} {version}"
        if borrowed := unknown_lender(manifest, version, schemas):
            yield borrowed
        for requirement in details["requires"]:
            if "==" not in requirement:
                yield f"{requirement} is not an exact pin"


def unknown_lender(manifest: Mapping[str, Any], version: str, schemas: Mapping[str, Any]) -> str:
    """What is wrong with `keys_of`, empty when nothing is."""
    framework, borrowed = manifest["name"].split("/")[0], manifest.get("keys_of")
    schema = schemas.get(f"{framework}/{version}")
    if schema is None or borrowed is None or borrowed in schema["methods"]:
        return ""
    return f"keys_of: {framework} {version} has no method {borrowed}; there are {', '.join(sorted(schema['methods']))}"


def _check_prose(manifest: Mapping[str, Any], *, translated: bool) -> Iterator[str]:
    chinese = manifest["i18n"].get("zh-Hans")
    if chinese is None:
        if translated:
            yield "there is no zh-Hans text"
        return
    for name in sorted(set(manifest["params"]) ^ set(chinese["params"])):
        yield f"parameter {name} is documented in one language only"


def _check_metrics(manifest: Mapping[str, Any]) -> Iterator[str]:
    metrics = manifest["metrics"]
    for name, canonical in metrics["aliases"].items():
        if not canonical.startswith(CANONICAL_PREFIXES):
            yield f"alias {name}: {canonical} does not start with {', '.join(CANONICAL_PREFIXES)}"
        if name.endswith("*") != canonical.endswith("*") or "*" in name[:-1]:
            yield f"alias {name}: a * stands at the end of both names or of none"
    known = set(metrics["aliases"].values())
    for name in (metrics.get("primary"), *metrics["semantics"]):
        if name is not None and name not in known:
            yield f"no alias leads to {name}"


def _check_params(manifest: Mapping[str, Any], version: str, schemas: Mapping[str, Any]) -> Iterator[str]:
    keys = schema_keys(manifest, version, schemas)
    if keys is None:
        return
    owned = manifest["adapter_options"]["owned"]
    for key in manifest["adapter_options"]["fixed"]:
        if not owning(key, owned):
            yield f"fixed key {key} is not owned by the platform"
    for name, param in manifest["params"].items():
        spec = keys.get(param["path"])
        if spec is None:
            yield f"parameter {name}: {manifest['framework']} {version} has no key {param['path']}"
        elif owning(param["path"], owned):
            yield f"parameter {name} sets a key that the platform owns"
        else:
            yield from _check_param(name, param, spec)


def _check_param(name: str, param: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[str]:
    """What the manifest says of a parameter is what the schema says."""
    for field, right in param_facts(spec).items():
        if param.get(field) != right:
            yield f"parameter {name}: {field} is {param.get(field)!r}, the framework says {right!r}"


def param_facts(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What the schema says of a key, in the words of a manifest's parameter."""
    return {
        "type": "enum" if "choices" in spec else "float" if "float" in spec["type"] else spec["type"][0],
        "nullable": spec.get("nullable", False),
        "default": spec.get("default"),
        "choices": spec.get("choices"),
        "required": spec.get("required", False),
        **dict.fromkeys(BOUNDS.values()),
        **{limit: spec[word] for word, limit in BOUNDS.items() if word in spec},
    }


def _check_template(manifest: Mapping[str, Any], template: Path) -> Iterator[str]:
    wanted = [*REQUIRED_FILES]
    if manifest["entrypoint"]["kind"] == "experiment":
        wanted.append(manifest["entrypoint"]["value"])
    for name in wanted:
        if not (template / name).is_file():
            yield f"the template has no {name}"
    if (template / CONFIG_FILE).is_file():
        values = yaml.safe_load((template / CONFIG_FILE).read_bytes())
        if values is not None and not isinstance(values, dict):
            yield f"the template's {CONFIG_FILE} must hold keys and values"
