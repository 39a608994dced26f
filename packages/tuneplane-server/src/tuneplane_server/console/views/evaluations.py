"""Evaluations as lists, the job's tab and the comparison show them."""

from __future__ import annotations

from typing import Any

from tuneplane_server.console.i18n import N_, _

TINY = "/out/tiny-model"  # where evalkit/benchmark makes one when no model is named
_GATES = {
    "passed": (N_("passed"), "tone-good", "circle-check"),
    "failed": (N_("not passed"), "tone-bad", "circle-x"),
    "missing": (N_("no such figure"), "tone-bad", "circle-question-mark"),
}
WIDTH = 100  # of a bar, in the units of its picture


def listed(item: dict[str, Any]) -> dict[str, Any]:
    """An evaluation (API shape) with `shown_model`, its gates in words, how many were `missed`, and what `heads` leaves out."""
    gates = [gate | {"shown": _gate(gate)} for gate in item["gates"]]
    return item | {
        "gates": gates,
        "missed": sum(gate["state"] != "passed" for gate in gates),
        "shown_model": model_text(item["model"]),
        "more": max(0, item["task_count"] - len(item["heads"])),
    }


def shown(item: dict[str, Any]) -> dict[str, Any]:
    """The whole report: `rows`, one for each figure, with the picture of its bar."""
    rows = [
        {
            "task": task,
            "first": place == 0,
            "name": figure["name"],
            "filter": figure["filter"],
            "figure": figure,
            "bar": bar(figure),
        }
        for task in item["tasks"]
        for place, figure in enumerate(task["figures"])
    ]
    settings = [
        {"name": name, "value": _setting(value)}
        for name, value in item["settings"].items()
        if value not in (None, [], {}, "")
    ]
    return listed(item) | {"rows": rows, "shown_settings": settings}


def compared(found: dict[str, Any]) -> dict[str, Any]:
    """`found`: the comparison (API shape). Runs get a letter; `base_first`: the runs with each one as the base."""
    runs = [
        listed(run) | {"letter": chr(ord("A") + place), "base_first": _moved(found["runs"], place)}
        for place, run in enumerate(found["runs"])
    ]
    rows = [
        row | {"cells": [cell | {"tone": _tone(cell["difference"])} for cell in row["cells"]]} for row in found["rows"]
    ]
    return found | {"runs": runs, "rows": rows, "percent": f"{100 * found['confidence']:g}"}


def model_text(model: dict[str, Any]) -> str:
    """`hf:Qwen/Qwen3-0.6B`; a run's checkpoint by its step; what the job says itself where none was named."""
    if model["run"]:
        if model["step"] is None:
            return _("run {run}").format(run=model["run"])
        return _("run {run}, step {step}").format(run=model["run"], step=model["step"])
    if model["ref"] is None and str(model["name"] or "").endswith(TINY):
        return _("the template's tiny model")
    return str(model["ref"] or model["name"] or "–")


def bar(figure: dict[str, Any]) -> dict[str, float] | None:
    """{value, low, high} along a bar of `WIDTH` for a share; None for other figures, which have no end."""
    value, low, high = figure["value"], figure["low"], figure["high"]
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    ends = (low, high) if isinstance(low, int | float) and isinstance(high, int | float) else (value, value)
    return {"value": _along(value), "low": _along(ends[0]), "high": _along(ends[1])}


def _gate(gate: dict[str, Any]) -> dict[str, str]:
    """The bound, and the pill that says whether it is kept."""
    bounds = [f"{sign} {gate[side]:g}" for side, sign in (("min", "≥"), ("max", "≤")) if gate[side] is not None]
    word, tone, shape = _GATES.get(gate["state"], (gate["state"], "tone-warn", "circle-question-mark"))
    return {"bound": " ".join(bounds), "word": _(word), "tone": tone, "icon": shape}


def _along(share: float) -> float:
    return round(WIDTH * min(1.0, max(0.0, share)), 2)


def _moved(runs: list[dict[str, Any]], place: int) -> list[str]:
    ids = [run["run"] for run in runs]
    return [ids[place], *ids[:place], *ids[place + 1 :]]


def _tone(difference: dict[str, Any] | None) -> str:
    if difference is None or not difference["significant"]:
        return ""
    return "tone-good" if difference["better"] else "tone-bad"


def _setting(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
