"""Evaluates a model and writes `evaluations/report.json`: figures of each task with their standard errors and intervals.

On the platform: `tp submit <experiment> --model …`. By hand, in an environment that has lm-eval: `python eval.py --config config.yaml`.
"""

import argparse
import importlib
import os
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from model import find_model
from results import TaskResult, make_report, write_json
from settings import Settings, read_settings

try:
    from tuneplane import report
except ImportError:  # by hand, without the platform: the report is all there is
    report = None

OUT = Path(os.environ.get("TUNEPLANE_OUT_DIR") or tempfile.mkdtemp(prefix="tuneplane-"))
RUNNERS = {"lm-eval": "lm_eval_runner", "judge": "judge_runner", "safety": "safety_runner"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, default=Path("config.yaml"))
    settings = read_settings(parser.parse_args().config)
    if settings.runner == "lm-eval" and not (settings.packs or settings.tasks):
        raise SystemExit("nothing to evaluate: name packs or tasks in config.yaml")
    if report:
        report.init(config=asdict(settings))
    begun = time.monotonic()
    model = find_model(OUT, settings.seed, settings.trust_remote_code)
    print(f"{settings.runner}: {model['name']}", flush=True)
    results, samples = importlib.import_module(RUNNERS[settings.runner]).run(settings, model)
    found = make_report(settings.runner, results, model, asdict(settings), time.monotonic() - begun)
    write_json(OUT / "evaluations" / "report.json", found)
    show(found)
    if report:
        publish(results, samples, settings)
        report.finish()


def publish(results: list[TaskResult], samples: list[dict], settings: Settings) -> None:
    """Every figure as a metric of the run; `score` is the mean over the tasks of the figure that stands for each."""
    whole = [
        item
        for item in results
        if item.figures and (item.task in settings.tasks or item.pack or settings.runner != "lm-eval")
    ]
    metrics = {
        f"validation/{item.task}/{figure.name}" + (f"/{figure.filter}" if figure.filter else ""): figure.value
        for item in results
        for figure in item.figures
    }
    heads = [item.figures[0] for item in whole]
    if heads:
        metrics["score"] = sum(it.value if it.higher_is_better else 1 - it.value for it in heads) / len(heads)
    report.log(metrics, step=0)
    if samples:
        report.log_samples(samples, step=0, kind="completion")


def show(found: dict) -> None:
    for task in found["tasks"]:
        for figure in task["figures"]:
            interval = f" [{figure['low']:.4f}, {figure['high']:.4f}]" if figure["low"] is not None else ""
            name = figure["name"] + (f",{figure['filter']}" if figure["filter"] else "")
            print(f"{task['task']} {name} {figure['value']:.4f}{interval} n={task['n']}")
    print(f"report saved to {OUT / 'evaluations/report.json'}")


if __name__ == "__main__":
    main()
