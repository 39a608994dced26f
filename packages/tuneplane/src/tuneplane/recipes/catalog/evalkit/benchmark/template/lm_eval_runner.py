"""Benchmarks with EleutherAI's lm-evaluation-harness: its own tasks and packs of them, and the tasks in tasks/*.yaml beside this file."""

import difflib
from pathlib import Path
from typing import Any

import lm_eval
import torch
from lm_eval.tasks import TaskManager
from lm_eval_options import generation, model_arguments
from packs import PACKS
from results import Figure, TaskResult
from settings import Settings

OWN_TASKS = Path(__file__).parent / "tasks"


def wanted_tasks(settings: Settings) -> dict[str, str | None]:
    """Task -> pack it came from."""
    wanted: dict[str, str | None] = {task: pack for pack in settings.packs for task in PACKS[pack]}
    return {**wanted, **{task: wanted.get(task) for task in settings.tasks}}


def run(settings: Settings, model: dict[str, Any]) -> tuple[list[TaskResult], list[dict[str, Any]]]:
    """Results in the order of the tasks, and samples for people. `SystemExit` for a task that there is not."""
    wanted = wanted_tasks(settings)
    manager = TaskManager(include_path=str(OWN_TASKS) if OWN_TASKS.is_dir() else None)
    for task in wanted:
        if task not in manager.all_tasks:
            near = difflib.get_close_matches(task, manager.all_tasks, n=1)
            raise SystemExit(f"lm-eval has no task {task!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    found = lm_eval.simple_evaluate(
        model=settings.backend,
        model_args=model_arguments(settings, model),
        tasks=list(wanted),
        num_fewshot=settings.num_fewshot,
        batch_size=settings.batch_size,
        device=None if torch.cuda.is_available() else "cpu",
        limit=settings.limit,
        log_samples=settings.samples > 0,
        apply_chat_template=settings.apply_chat_template and bool(model["chat_template"]),
        system_instruction=settings.system_prompt,
        gen_kwargs=generation(settings) or None,
        task_manager=manager,
        confirm_run_unsafe_code=settings.allow_code,
        random_seed=settings.seed,
        numpy_random_seed=settings.seed,
        torch_random_seed=settings.seed,
        fewshot_random_seed=settings.seed,
    )
    if found is None:
        raise SystemExit("lm-eval gave no results")
    model["parameters"] = found["config"].get("model_num_parameters")
    names = [*wanted, *(name for name in found["results"] if name not in wanted)]  # groups first, then their parts
    results = [result_of(name, found, wanted) for name in names if name in found["results"]]
    return results, samples_of(found, settings.samples)


def result_of(name: str, found: dict[str, Any], wanted: dict[str, str | None]) -> TaskResult:
    """lm-eval's `exact_match,strict-match` and `exact_match_stderr,strict-match` as one figure."""
    values, better = found["results"][name], found.get("higher_is_better", {}).get(name) or {}
    figures = []
    for key, value in values.items():
        metric, _, variant = key.partition(",")
        if not variant or metric.endswith("_stderr") or not isinstance(value, int | float):
            continue
        stderr = values.get(f"{metric}_stderr,{variant}")
        shown = "" if variant == "none" else variant
        known = float(stderr) if isinstance(stderr, int | float) else None
        figures.append(Figure(metric, float(value), known, shown, better.get(metric) is not False))
    group = name in found.get("groups", {})
    counted = found["n-samples"]
    parts = [name] if name in counted else leaves(name, found.get("group_subtasks", {}))
    return TaskResult(
        task=name,
        n=sum(counted[part]["effective"] for part in parts if part in counted),
        total=sum(counted[part]["original"] for part in parts if part in counted),
        figures=figures,
        pack=wanted.get(name),
        version=str(found["versions"][name]) if found["versions"].get(name) is not None else None,
        num_fewshot=found.get("n-shot", {}).get(name),
        group=group,
    )


def leaves(name: str, subtasks: dict[str, list[str]]) -> list[str]:
    return [leaf for part in subtasks.get(name, []) for leaf in (leaves(part, subtasks) or [part])]


def samples_of(found: dict[str, Any], count: int) -> list[dict[str, Any]]:
    rows = []
    for name, samples in (found.get("samples") or {}).items():
        for sample in samples[:count]:
            arguments = sample["arguments"]
            first = arguments["gen_args_0"]["arg_0"] if isinstance(arguments, dict) else arguments[0][0]
            answer = sample["filtered_resps"][0] if sample["filtered_resps"] else ""
            scores = {
                metric: sample[metric]
                for metric in sample.get("metrics", [])
                if isinstance(sample.get(metric), int | float)
            }
            reward = next(iter(scores.values()), None)
            rows.append({"prompt": f"[{name}] {first}", "completion": str(answer), "reward": reward, "rewards": scores})
    return rows
