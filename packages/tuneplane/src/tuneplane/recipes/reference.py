"""The reference pages of all parameters, from the index: `docs/<language>/reference/parameters.md` and `parameters/<framework>.md`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuneplane.recipes.check_manifest import schema_keys
from tuneplane.recipes.validate import owning

_WORDS: dict[str, dict[str, str]] = {
    "en": {
        "title": "Parameters",
        "intro": "The main parameters of each method: what `--set name=value` takes and what `tp methods <method>` shows. Every other key of "
        "the framework's configuration classes is allowed in `config.yaml` too, with its type and bounds checked "
        "([how](recipes.md#keys)).",
        "written": "Written by `make catalog` from the manifests; `tp methods <method>` shows the same.",
        "shared": "Keys of every method",
        "head": "| parameter | type | default | values | meaning |",
        "none": "This method has no parameters.",
        "keys": "{count} keys of `config.yaml`",
        "owned": "Set by the platform",
        "empty": "empty",
        "any": "",
    },
    "zh-Hans": {
        "title": "参数",
        "intro": "各方法的主要参数：`--set name=value` 接受、`tp methods <method>` 显示的就是这些。框架配置类的其他键也都可以写进 "
        "`config.yaml`，类型和取值范围同样会检查（[怎么检查](recipes.md#键)）。",
        "written": "由 `make catalog` 根据 manifest 生成；`tp methods <method>` 显示同样的内容。",
        "shared": "各方法共有的键",
        "head": "| 参数 | 类型 | 默认值 | 取值 | 含义 |",
        "none": "这个方法没有参数。",
        "keys": "`config.yaml` 的 {count} 个键",
        "owned": "由平台设置",
        "empty": "留空",
        "any": "",
    },
}


def render_reference(index: Mapping[str, Any], schemas: Mapping[str, Any], language: str) -> dict[str, str]:
    """Path below `docs/<language>/reference` -> Markdown: a page of all methods, and one of each framework with its parameters in
    tables and every key of the framework's configuration by name. `schemas` as `compile.read_schemas` has them."""
    words = _WORDS[language]
    frameworks: dict[str, list[str]] = {}
    for method in sorted(index["methods"]):
        frameworks.setdefault(method.split("/")[0], []).append(method)
    overview = [f"# {words['title']}", words["intro"]]
    pages = {}
    for framework, methods in frameworks.items():
        manifests = [index["methods"][method]["manifest"] for method in methods]
        lines = [
            f"- [{item['name']}](parameters/{framework}.md#{_anchor(item, language)}): {_text(item, language)['title']}"
            for item in manifests
        ]
        overview.append(f"## {framework}\n\n" + "\n".join(lines))
        pages[f"parameters/{framework}.md"] = _framework_page(framework, manifests, schemas, language)
    return {"parameters.md": "\n\n".join(overview) + "\n", **pages}


def _framework_page(
    framework: str, manifests: list[Mapping[str, Any]], schemas: Mapping[str, Any], language: str
) -> str:
    """Keys that every method takes stand once, at the end."""
    words = _WORDS[language]
    parts = [f"# {framework}", words["written"]]
    taken = {item["name"]: _free_keys(schemas, item) for item in manifests}
    shared = set.intersection(*taken.values()) if len(taken) > 1 else set()
    owned = set.intersection(*(set(item["adapter_options"]["owned"]) for item in manifests))
    for manifest in manifests:
        text, name = _text(manifest, language), manifest["name"]
        parts.append(f"## {name}: {text['title']}\n\n{text['summary']}")
        keys = schema_keys(manifest, manifest["runtime"]["default_version"], schemas) or {}
        parts.append(_table(manifest, keys, language, words) if manifest["params"] else words["none"])
        own = taken[name] - shared
        if own:
            parts.append(f"{words['keys'].format(count=len(own))}: {_names(own)}")
        if other := set(manifest["adapter_options"]["owned"]) - owned:
            parts.append(f"{words['owned']}: {_names(other)}")
    if shared:
        parts.append(f"## {words['shared']}\n\n{words['keys'].format(count=len(shared))}: {_names(shared)}")
    if owned:
        parts.append(f"{words['owned']}: {_names(owned)}")
    return "\n\n".join(parts) + "\n"


def _free_keys(schemas: Mapping[str, Any], manifest: Mapping[str, Any]) -> set[str]:
    keys = schema_keys(manifest, manifest["runtime"]["default_version"], schemas) or {}
    return {key for key in keys if not owning(key, manifest["adapter_options"]["owned"])}


def _names(keys: set[str]) -> str:
    return " ".join(f"`{key}`" for key in sorted(keys))


def _text(manifest: Mapping[str, Any], language: str) -> Mapping[str, Any]:
    text: Mapping[str, Any] = manifest if language == "en" else manifest["i18n"][language]
    return text


def _anchor(manifest: Mapping[str, Any], language: str) -> str:
    """As renderers of Markdown name a heading: lower case, letters, digits, - and _; spaces become -."""
    heading = f"{manifest['name']}: {_text(manifest, language)['title']}".lower()
    return "".join("-" if letter == " " else letter for letter in heading if letter.isalnum() or letter in " -_")


def _table(manifest: Mapping[str, Any], keys: Mapping[str, Any], language: str, words: Mapping[str, str]) -> str:
    docs = {name: param["doc"] for name, param in manifest["params"].items()}
    if language != "en":
        docs = manifest["i18n"][language]["params"]
    rows = [words["head"], "| --- | --- | --- | --- | --- |"]
    for name, param in manifest["params"].items():
        cells = (
            f"`{name}`",
            param["type"],
            _default(param, words),
            _range(keys.get(param["path"], param)),
            docs[name].replace("|", "\\|"),
        )
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _default(param: Mapping[str, Any], words: Mapping[str, str]) -> str:
    default = param.get("default")
    if default is None:
        return words["empty"]
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _range(spec: Mapping[str, Any]) -> str:
    if spec.get("choices"):
        return ", ".join(f"`{choice}`" for choice in spec["choices"])
    signs = {"min": "≥", "exclusive_min": ">", "max": "≤", "exclusive_max": "<"}
    return ", ".join(f"{sign} {spec[bound]:.10g}" for bound, sign in signs.items() if bound in spec)
