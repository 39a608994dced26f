"""The reference page of all parameters, from the index: `docs/<language>/reference/parameters.md`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WORDS: dict[str, dict[str, str]] = {
    "en": {
        "title": "Parameters",
        "intro": "The main parameters of each method: what `--set name=value` takes and what `tp methods <method>` shows. Every other key of "
        "the framework's configuration classes is allowed in `config.yaml` too, with its type and bounds checked "
        "([how](recipes.md#keys)). This page is written by `make catalog` from the manifests.",
        "head": "| parameter | type | default | values | meaning |",
        "none": "This method has no parameters.",
        "keys": "All {count} keys of `config.yaml`",
        "owned": "Set by the platform",
        "empty": "empty",
        "any": "",
    },
    "zh-Hans": {
        "title": "参数",
        "intro": "各方法的主要参数：`--set name=value` 接受、`tp methods <method>` 显示的就是这些。框架配置类的其他键也都可以写进 "
        "`config.yaml`，类型和取值范围同样会检查（[怎么检查](recipes.md#键)）。本页由 `make catalog` 根据 manifest 生成。",
        "head": "| 参数 | 类型 | 默认值 | 取值 | 含义 |",
        "none": "这个方法没有参数。",
        "keys": "`config.yaml` 的全部 {count} 个键",
        "owned": "由平台设置",
        "empty": "留空",
        "any": "",
    },
}


def render_reference(index: Mapping[str, Any], language: str) -> str:
    """Markdown: one section per method, its parameters in a table, then every key of the framework's classes by name."""
    words = _WORDS[language]
    parts = [f"# {words['title']}", words["intro"]]
    for method, entry in sorted(index["methods"].items()):
        manifest = entry["manifest"]
        text = manifest if language == "en" else manifest["i18n"][language]
        parts.append(f"## {method}: {text['title']}\n\n{text['summary']}")
        keys = _keys(index, manifest)
        parts.append(_table(manifest, keys, language, words) if manifest["params"] else words["none"])
        if keys:
            owned = manifest["adapter_options"]["owned"]
            names = " ".join(f"`{key}`" for key in sorted(keys) if key not in owned)
            summary = words["keys"].format(count=len(set(keys) - set(owned)))
            parts.append(f"{summary}: {names}")
            parts.append(f"{words['owned']}: " + " ".join(f"`{key}`" for key in sorted(owned)))
    return "\n\n".join(parts) + "\n"


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


def _keys(index: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    framework, method = manifest["name"].split("/")
    schema = index["schemas"].get(f"{framework}/{manifest['runtime']['default_version']}")
    return {} if schema is None else {**schema["common"], **schema["methods"].get(method, {})}
