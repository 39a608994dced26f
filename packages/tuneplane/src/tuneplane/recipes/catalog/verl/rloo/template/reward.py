"""How completions are scored. verl calls `compute_score` for each; what it returns beside `score` becomes a metric of the validation."""

import re


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict | None = None, **options
) -> dict:
    """`score` 1 when the last number of the completion is the answer; a tenth when there is a number at all."""
    numbers = re.findall(r"-?\d+", solution_str)
    right = bool(numbers) and numbers[-1] == ground_truth
    return {"score": 1.0 if right else 0.1 * bool(numbers), "acc": float(right)}
