"""What a job ran with: recipe and digests, hyperparameters, resolved config, environment, command."""

from __future__ import annotations

import json
import shlex
from typing import Any

from tuneplane_server.console.i18n import N_, _

_LONGEST = 2000


def blocks(job: dict[str, Any], hyperparams: dict[str, Any], facts: dict[str, Any]) -> list[dict[str, Any]]:
    """The panels: {title, note, rows, text, copied, wide}. `facts`: what the runner reported (command, environment)."""
    document = job.get("spec") or {}
    spec = document.get("spec") or {}
    command = facts.get("command")
    shown = [
        _block(N_("Recipe and runtime"), _recipe_rows(job, document)),
        _block(N_("Resources"), _resource_rows(spec)),
        _block(N_("Hyperparameters set at submit"), flat(spec.get("hyperparams") or {})),
        _block(N_("Resolved config"), flat(spec.get("config") or {}), note=N_("config.yaml with what it inherits")),
        _block(N_("Hyperparameters reported by the trainer"), flat(hyperparams)),
        _block(N_("Model and data"), flat({key: spec.get(key) or {} for key in ("model", "data")})),
        _block(
            N_("Environment variables"),
            sorted((spec.get("env") or {}).items()),
            note=N_("set at submit; secrets are named, never shown"),
        ),
        _block(N_("Machine"), flat(facts.get("environment") or {}), note=N_("as the trainer saw it")),
    ]
    if command:
        text = shlex.join(command) if isinstance(command, list) else str(command)
        shown.insert(0, _block(N_("Command"), [], text=text, copied=text, wide=True))
    return [block for block in shown if block["rows"] or block["text"]]


def spec_text(job: dict[str, Any]) -> str:
    return json.dumps(job.get("spec"), ensure_ascii=False, indent=2)


def flat(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Nested values as (dotted name, text) in their own order; empty ones are left out."""
    rows: list[tuple[str, str]] = []
    for name, item in value.items() if isinstance(value, dict) else []:
        if isinstance(item, dict):
            rows += flat(item, f"{prefix}{name}.")
        elif item is not None and item != []:
            text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
            rows.append((f"{prefix}{name}", text if len(text) <= _LONGEST else text[:_LONGEST] + "…"))
    return rows


def _block(title: str, rows: list[tuple[str, str]], **more: Any) -> dict[str, Any]:
    return {"title": title, "rows": rows, "note": "", "text": "", "copied": "", "wide": False} | more


def _recipe_rows(job: dict[str, Any], document: dict[str, Any]) -> list[tuple[str, str]]:
    spec, provenance = document.get("spec") or {}, document.get("provenance") or {}
    recipe, framework, runtime = spec.get("recipe") or {}, spec.get("framework") or {}, job.get("runtime") or {}
    dirty = _(" with uncommitted changes") if provenance.get("git_dirty") else ""
    rows = [
        (_("method"), f"{recipe.get('name', '')} {recipe.get('version', '')}".strip()),
        (_("recipe digest"), recipe.get("digest")),
        (_("framework"), f"{framework.get('kind', '')} {framework.get('version', '')}".strip()),
        ("runtime_id", runtime.get("runtime_id") or framework.get("runtime_id")),
        (_("image"), runtime.get("image") or framework.get("image")),
        (_("runs in"), _runs_in(runtime)),
        (_("observability"), framework.get("observability")),
        ("observability_url", framework.get("observability_url")),
        (_("package digest"), provenance.get("package_digest")),
        (_("config digest"), provenance.get("config_digest")),
        (_("git commit"), provenance["git_commit"] + dirty if provenance.get("git_commit") else None),
        (_("client version"), provenance.get("client_version")),
    ]
    return [(name, str(value)) for name, value in rows if value]


def _runs_in(runtime: dict[str, Any]) -> str | None:
    where = runtime.get("ran_in")
    if where and runtime.get("isolated") is False:
        return _("{runtime}, not isolated from its machine").format(runtime=where)
    return where


def _resource_rows(spec: dict[str, Any]) -> list[tuple[str, str]]:
    resources = spec.get("resources") or {}
    rows: list[tuple[str, str]] = []
    for pool in resources.get("pools") or []:
        rows += flat({key: item for key, item in pool.items() if key != "name"}, f"{pool.get('name', 'main')}.")
    return rows + flat({"roles": resources.get("roles") or {}, "limits": spec.get("limits") or {}})
