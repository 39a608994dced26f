"""What is kept of a report, in the words of the domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuneplane_server.domain.evaluation import Asking, Figure, Report, Task, score
from tuneplane_server.domain.gates import Gate, GateResult, figures_by_metric, judge

JUDGE_NOTE = "judge: "  # how evalkit/benchmark notes which judge model graded
DEFAULT_CONFIDENCE = 0.95
HEADS = 8  # tasks that a listing shows


def report_of(kept: dict[str, Any]) -> Report:
    """Of `EvaluationRow.report`."""
    settings, model = kept["settings"], kept["model"]
    asking = Asking(
        runner=kept["runner"],
        chat_template=settings.get("apply_chat_template") is not False and model["chat_template"],
        limit=_whole(settings.get("limit")),
        system_prompt=_text(settings.get("system_prompt")),
        max_length=_whole(settings.get("max_length")),
        max_new_tokens=_whole(settings.get("max_new_tokens")),
        temperature=_number(settings.get("temperature")),
    )
    return Report(asking, tuple(_task(item) for item in kept["tasks"]))


def main_tasks(kept: dict[str, Any]) -> list[dict[str, Any]]:
    """The tasks that were asked for, without the parts of groups; all that have figures when the report does not tell them apart."""
    named = kept["settings"].get("tasks")
    wanted = {item for item in named if isinstance(item, str)} if isinstance(named, list) else set()
    measured = [item for item in kept["tasks"] if item["figures"]]
    return [item for item in measured if item["pack"] or item["task"] in wanted] or measured


def heads_of(kept: dict[str, Any]) -> list[dict[str, Any]]:
    """The first of the main tasks, each with the figure that stands for it."""
    return [{"task": item["task"], "n": item["n"], **item["figures"][0]} for item in main_tasks(kept)[:HEADS]]


def score_of(kept: dict[str, Any]) -> float | None:
    return score(figure_of(item["figures"][0]) for item in main_tasks(kept))


def gates_of(evaluation: Mapping[str, Any], kept: dict[str, Any] | None) -> list[dict[str, Any]]:
    """[{metric, min, max, state, value, certain}] for `spec.evaluation.gates`; of a report that cannot be used every figure is missing."""
    gates = [Gate(item["metric"], item.get("min"), item.get("max")) for item in evaluation.get("gates") or []]
    figures = {} if kept is None else figures_by_metric(report_of(kept), score_of(kept))
    confidence = DEFAULT_CONFIDENCE if kept is None else kept["confidence"]
    return [_result(judge(gate, figures, confidence)) for gate in gates]


def _result(found: GateResult) -> dict[str, Any]:
    gate = found.gate
    bounds = {"metric": gate.metric, "min": gate.low, "max": gate.high}
    return {**bounds, "state": str(found.state), "value": found.value, "certain": found.certain}


def figure_of(kept: dict[str, Any]) -> Figure:
    """`value` may be one of the strings "NaN", "Infinity", "-Infinity"."""
    return Figure(kept["name"], float(kept["value"]), kept["stderr"], kept["filter"], kept["higher_is_better"])


def _task(kept: dict[str, Any]) -> Task:
    return Task(
        task=kept["task"],
        n=kept["n"],
        total=kept["total"],
        figures=tuple(figure_of(item) for item in kept["figures"]),
        version=kept["version"],
        num_fewshot=kept["num_fewshot"],
        group=kept["group"],
        judge=_judge(kept["notes"]),
    )


def _judge(notes: Sequence[str]) -> str | None:
    return next((note.removeprefix(JUDGE_NOTE) for note in notes if note.startswith(JUDGE_NOTE)), None)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
