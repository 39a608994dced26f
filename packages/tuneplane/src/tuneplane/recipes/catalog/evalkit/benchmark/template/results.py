"""evaluations/report.json: what was measured, of what, how, and how sure one may be."""

import json
import math
import os
import platform
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from statistics import NormalDist
from typing import Any

API_VERSION = "tuneplane/evaluation-report/v1"
PACKAGES = ("torch", "transformers", "lm_eval", "datasets", "tokenizers", "vllm")


@dataclass
class Figure:
    """One number. `stderr` is its standard error, None where the runner gives none: then there is no interval either."""

    name: str
    value: float
    stderr: float | None = None
    filter: str = ""
    higher_is_better: bool = True

    def with_interval(self, confidence: float) -> dict[str, Any]:
        """Normal approximation: value ± z · stderr. Figures that are shares stay between 0 and 1."""
        low = high = None
        if self.stderr is not None:
            reach = NormalDist().inv_cdf(0.5 + confidence / 2) * self.stderr
            low, high = self.value - reach, self.value + reach
            if 0 <= self.value <= 1:
                low, high = max(0.0, low), min(1.0, high)
        return {
            "name": self.name, "filter": self.filter, "value": self.value, "stderr": self.stderr, "low": low, "high": high,
            "higher_is_better": self.higher_is_better,
        }  # fmt: skip


@dataclass
class TaskResult:
    """`n` rows were asked of `total`; `figures[0]` is the one that stands for the task. A group stands for its subtasks."""

    task: str
    n: int
    total: int
    figures: list[Figure]
    pack: str | None = None
    version: str | None = None
    num_fewshot: int | None = None
    group: bool = False
    notes: list[str] = field(default_factory=list)


def mean_figure(name: str, values: list[float], higher_is_better: bool = True) -> Figure:
    """The mean of independent values and its standard error (sample standard deviation over √n)."""
    mean = sum(values) / len(values)
    stderr = None
    if len(values) > 1:
        stderr = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
    return Figure(name, mean, stderr, higher_is_better=higher_is_better)


def make_report(
    runner: str, tasks: list[TaskResult], model: dict[str, Any], settings: dict[str, Any], seconds: float
) -> dict[str, Any]:
    confidence = settings["confidence"]
    return {
        "apiVersion": API_VERSION,
        "runner": runner,
        "run": {
            name: os.environ.get(f"TUNEPLANE_{name.upper()}")
            for name in ("run_id", "attempt", "recipe", "recipe_version", "recipe_digest", "runtime_id")
        },
        "model": model,
        "settings": settings,
        "versions": {"python": platform.python_version(), **versions()},
        "interval": {"method": "normal", "confidence": confidence},
        "seconds": round(seconds, 3),
        "tasks": [
            {
                "task": item.task, "pack": item.pack, "group": item.group, "version": item.version, "n": item.n, "total": item.total,
                "num_fewshot": item.num_fewshot, "notes": item.notes,
                "figures": [figure.with_interval(confidence) for figure in item.figures],
            }
            for item in tasks
        ],
    }  # fmt: skip


def versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def write_json(path: Path, value: Any) -> None:
    """Under another name first: a report that is there is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    with unfinished.open("w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=1, default=str)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
