"""Reports as evalkit/benchmark writes them, and runs that have left one."""

from __future__ import annotations

import json
from typing import Any

from tests.tuneplane_server.harness import Harness, jobspec
from tuneplane_server.domain.classify import Exit
from tuneplane_server.features.accounts.principal import Principal


def figure(value: float, stderr: float | None = 0.02, **more: Any) -> dict[str, Any]:
    made = {"name": "acc", "filter": "", "value": value, "stderr": stderr, "low": None, "high": None}
    return {**made, "higher_is_better": True, **more}


def task(name: str = "arc_challenge", value: float = 0.5, stderr: float | None = 0.02, **more: Any) -> dict[str, Any]:
    made = {"task": name, "pack": None, "group": False, "version": "1.0", "n": 600, "total": 600, "num_fewshot": 0}
    return {**made, "notes": [], "figures": [figure(value, stderr)], **more}


def report(*tasks: dict[str, Any], settings: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    shown = list(tasks) or [task()]
    asked = {"tasks": [item["task"] for item in shown if not item["pack"]], "limit": None, "apply_chat_template": True}
    return {
        "apiVersion": "tuneplane/evaluation-report/v1",
        "runner": "lm-eval",
        "run": {"run_id": None, "attempt": "1"},
        "model": {"name": "Qwen/Qwen3-0.6B", "revision": None, "given": True, "chat_template": True, "parameters": 596},
        "settings": {**asked, **(settings or {})},
        "versions": {"python": "3.11.9", "lm_eval": "0.4.13"},
        "interval": {"method": "normal", "confidence": 0.95},
        "seconds": 12.5,
        "tasks": shown,
        **more,
    }


def make_runtime(harness: Harness) -> None:
    """The console has the environment that evalkit/benchmark asks for."""
    binary = harness.services.settings.runtimes / "evalkit-1.0/bin/python3"
    binary.parent.mkdir(parents=True)
    binary.touch()


async def finish(
    harness: Harness, job_id: str, content: bytes | dict[str, Any] | None, result: str = "succeeded"
) -> None:
    """The run ends and leaves `content` as its report; the roles bring it to its end."""
    job = await harness.job(job_id)
    if content is not None:
        path = harness.out(job) / "evaluations/report.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    await harness.write_outcome(job_id, result)
    code = 0 if result == "succeeded" else 1
    harness.scripted.containers[job_id, job.attempt].exit = Exit(False, code)
    await harness.round(3)


async def evaluated(
    harness: Harness, principal: Principal, content: bytes | dict[str, Any] | None = None, **spec: Any
) -> str:
    """A run that is over and has left `content` (a report)."""
    job_id = await harness.running_job(principal, jobspec(spec.pop("method", "custom/custom"), **spec))
    await finish(harness, job_id, report() if content is None else content)
    assert (await harness.job(job_id)).phase == "succeeded"
    return job_id
