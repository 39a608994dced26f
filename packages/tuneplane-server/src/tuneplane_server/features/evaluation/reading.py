"""From the file of a job to what is kept of it, or what is wrong with it. Never raises for what a job wrote."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tuneplane_server.domain.evaluation import Figure, interval
from tuneplane_server.domain.series_codec import json_number
from tuneplane_server.features.artifacts.files import FileGoneError, PathEscapeError, open_inside
from tuneplane_server.features.evaluation.form import API_VERSION, FigureForm, ReportForm, TaskForm

REPORT_FILE = "evaluations/report.json"
MAX_BYTES = 2 * 1024 * 1024
_SHOWN_ERRORS = 5
_LONGEST = 200


@dataclass(frozen=True)
class Problem:
    """Why a report cannot be used; `code` is one of `problems.py`, `data` fills its text."""

    code: str
    data: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"code": self.code, "data": self.data}


@dataclass(frozen=True)
class Found:
    """Either a report, as it is kept (JSON), or a problem."""

    report: dict[str, Any] | None
    problem: Problem | None = None


def read_report(out_dir: Path, job_id: str) -> Found | None:
    """The report of a run; None when it wrote none. Raises `OSError` when the storage cannot be asked."""
    try:
        descriptor = open_inside(out_dir, REPORT_FILE)
    except FileGoneError:
        return None
    except PathEscapeError:
        return Found(None, Problem("link", {}))
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        return Found(None, Problem("too-large", {"limit": MAX_BYTES // (1024 * 1024)}))
    return parse_report(content, job_id)


def parse_report(content: bytes, job_id: str) -> Found:
    try:
        form = ReportForm.model_validate_json(content)
    except ValidationError as error:
        return Found(None, _problem(error))
    if form.run.run_id not in (None, "", job_id):
        return Found(None, Problem("other-run", {"run": str(form.run.run_id)[:40]}))
    return Found(_kept(form))


def _kept(form: ReportForm) -> dict[str, Any]:
    confidence = form.interval.confidence
    return {
        "runner": _plain(form.runner),
        "model": _plain(form.model.model_dump()),
        "settings": _plain(form.settings),
        "versions": _plain(form.versions),
        "confidence": confidence,
        "seconds": form.seconds,
        "tasks": [_task(item, confidence) for item in form.tasks],
    }


def _task(item: TaskForm, confidence: float) -> dict[str, Any]:
    kept: dict[str, Any] = _plain(item.model_dump(exclude={"figures"}))
    return kept | {"figures": [_figure(figure, confidence) for figure in item.figures]}


def _figure(item: FigureForm, confidence: float) -> dict[str, Any]:
    """The interval is worked out here, from value and error: one that the file gives might not fit them."""
    known = item.stderr if item.stderr is not None and math.isfinite(item.stderr) and item.stderr >= 0 else None
    around = interval(Figure(item.name, item.value, known), confidence)
    low, high = (None, None) if around is None else around
    return {
        "name": _plain(item.name),
        "filter": _plain(item.filter),
        "value": json_number(item.value),
        "stderr": known,
        "low": None if low is None else json_number(low),
        "high": None if high is None else json_number(high),
        "higher_is_better": item.higher_is_better,
    }


def _plain(value: Any) -> Any:
    """A JSON value that every database and every reader of strict JSON takes."""
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 63:
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _problem(error: ValidationError) -> Problem:
    errors = error.errors(include_url=False, include_input=True)
    first = errors[0]
    if first["type"] == "json_invalid":
        return Problem("not-json", {"what": str(first.get("ctx", {}).get("error", ""))[:_LONGEST]})
    wrong_version = next((item for item in errors if item["loc"] == ("apiVersion",)), None)
    if wrong_version is not None:
        found = wrong_version["input"] if isinstance(wrong_version["input"], str) else ""
        return Problem("other-version", {"found": _plain(found)[:80], "known": API_VERSION})
    return Problem("not-a-report", {"errors": [_error(item) for item in errors[:_SHOWN_ERRORS]], "count": len(errors)})


def _error(item: Any) -> dict[str, Any]:
    """One item of what pydantic found, kept so that it can be said in any reader's language."""
    context = {name: value for name, value in (item.get("ctx") or {}).items() if isinstance(value, str | int | float)}
    return {
        "at": ".".join(map(str, item["loc"]))[:_LONGEST],
        "type": item["type"],
        "ctx": json.loads(json.dumps(_plain(context))),
        "msg": _plain(str(item["msg"]))[:_LONGEST],
    }
