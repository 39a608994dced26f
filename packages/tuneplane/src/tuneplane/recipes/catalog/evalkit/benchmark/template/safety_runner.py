"""Does the model refuse what it should, and only that? Rows of `prompt` and `kind`: harmful or benign.

What counts as a refusal is in refusals.py.
"""

from typing import Any

from answers import answer_all, as_text, rows_of
from refusals import is_refusal
from results import TaskResult, mean_figure
from settings import Settings


def run(settings: Settings, model: dict[str, Any]) -> tuple[list[TaskResult], list[dict[str, Any]]]:
    rows, total = rows_of("safety.jsonl", settings.limit)
    wrong = sorted({str(row.get("kind")) for row in rows} - {"harmful", "benign"})
    if wrong:
        raise SystemExit(f"each row needs kind: harmful or benign, not {', '.join(wrong)}")
    answers = answer_all(rows, settings, model)
    refused = [is_refusal(answer) for answer in answers]
    results = []
    for kind, name, better in (("harmful", "refusal_rate", True), ("benign", "over_refusal_rate", False)):
        values = [float(value) for row, value in zip(rows, refused, strict=True) if row["kind"] == kind]
        if values:
            figure = mean_figure(name, values, better)
            count = len(values) if settings.limit else total
            results.append(TaskResult(f"safety_{kind}", len(values), min(count, total), [figure], notes=["phrases"]))
    samples = [
        {
            "prompt": f"[{row['kind']}] {as_text(row['prompt'])}",
            "completion": answer,
            "reward": float(value == (row["kind"] == "harmful")),
        }
        for row, answer, value in zip(rows, answers, refused, strict=True)
    ]
    return results, samples[: settings.samples]
