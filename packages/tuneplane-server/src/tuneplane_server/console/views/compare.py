"""Runs side by side: how each is called and coloured, and in which settings they differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

COLOURS = 10  # custom properties --run-1 …; the eleventh run begins anew
VALUE_LENGTH = 200
ROWS = 200


def runs(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Jobs (as `views.jobs.present` gives them) with `label` and `colour`. Runs of one name are told apart by their ids."""
    names = [job["display_name"] or job["experiment"] for job in jobs]
    return [
        job
        | {
            "label": name if names.count(name) == 1 else f"{name} · {job['id'][-4:]}",
            "colour": f"--run-{index % COLOURS + 1}",
            "colour_number": index % COLOURS + 1,
        }
        for index, (job, name) in enumerate(zip(jobs, names, strict=True))
    ]


def differences(specs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """[{name, values}] of what the JobSpecs do not have in common: method, model, data, profile, config, hyperparameters.

    `values`: text for each run, None where it has no such setting. At most `ROWS` rows.
    """
    flat = [dict(_settings(spec)) for spec in specs]
    names = list(dict.fromkeys(name for one in flat for name in one))
    rows = [{"name": name, "values": [one.get(name) for one in flat]} for name in names]
    different = [row for row in rows if len(set(row["values"])) > 1][:ROWS]
    return [row | {"values": [_cut(value) for value in row["values"]]} for row in different]


def _settings(spec: dict[str, Any]) -> Iterator[tuple[str, str]]:
    body = spec.get("spec") or {}
    for part in ("recipe", "framework", "model", "data", "resources", "hyperparams", "config"):
        yield from _flat(body.get(part), "" if part in ("config", "hyperparams") else part)
    commit = (spec.get("provenance") or {}).get("git_commit")
    if commit:
        yield "git_commit", str(commit)[:12]


def _flat(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Leaves by their dotted path; a list is a leaf."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(inner, f"{path}.{name}" if path else str(name))
    elif value is not None and not path.endswith("digest"):
        yield path, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= VALUE_LENGTH else text[:VALUE_LENGTH] + "…"
