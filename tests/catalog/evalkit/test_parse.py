"""evalkit/benchmark against lm-eval itself: every pack's task is there, settings arrive as written, an unknown task is named."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.capsule import capsule, template_config
from tests.services.session import ROOT
from tuneplane import adapters
from tuneplane.recipes import index
from tuneplane.recipes.validate import check_config

pytestmark = [pytest.mark.catalog, pytest.mark.timeout(600)]
METHOD = "evalkit/benchmark"
ODD = "a b  'c' \"d\" $HOME $(id) e=f==g\nh\r\n\ti 训练 é 🚀 \\n -- \u2028"
EVERYTHING = {
    "runner": "safety", "packs": ["gsm8k", "ceval"], "tasks": ["a b", "=c", ""], "limit": 7, "num_fewshot": 0,
    "backend": "vllm", "dtype": "float32", "batch_size": 3, "max_length": 9, "max_new_tokens": 11, "temperature": 1e-05,
    "apply_chat_template": False, "system_prompt": ODD, "trust_remote_code": True, "allow_code": True, "confidence": 0.5,
    "samples": 0, "seed": 2147483647,
}  # fmt: skip
ASK = """
import dataclasses, json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from settings import Settings, read_settings
from packs import PACKS
import lm_eval_runner
from lm_eval.tasks import TaskManager
known = set(TaskManager(include_path=str(lm_eval_runner.OWN_TASKS)).all_tasks)
settings = []
for number, text in enumerate(json.load(sys.stdin)):
    path = Path(sys.argv[2]) / f"{number}.json"
    path.write_text(text, encoding="utf-8")
    settings.append(dataclasses.asdict(read_settings(path)))
try:
    lm_eval_runner.run(Settings(tasks=["gsm8", "arithmetic_sample"]), {})
except SystemExit as end:
    said = str(end)
missing = {pack: [task for task in tasks if task not in known] for pack, tasks in PACKS.items()}
print(json.dumps({
    "settings": settings, "defaults": dataclasses.asdict(Settings()), "said": said, "packs": len(PACKS),
    "missing": {pack: tasks for pack, tasks in missing.items() if tasks}, "own": "arithmetic_sample" in known,
}))
"""


def test_packs_settings_and_unknown_tasks(framework_env: Callable[[str], Path], tmp_path: Path) -> None:
    entry, template = index.entry(METHOD), template_config(METHOD)
    assert set(EVERYTHING) == set(index.config_keys(entry) or {})
    assert check_config(entry, EVERYTHING, {}) == []
    texts = [rendered(config) for config in (template, EVERYTHING)]
    done = subprocess.run(
        [framework_env("lm-eval") / "bin/python", "-c", ASK, index.CATALOG / METHOD / "template", tmp_path],
        input=json.dumps(texts), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["missing"] == {}
    assert found["own"]
    assert found["settings"] == [{**found["defaults"], **config} for config in (template, EVERYTHING)]
    assert found["said"] == "lm-eval has no task 'gsm8'; did you mean 'gsm8k'?"
    print(f"{METHOD}: {found['packs']} packs known to lm-eval, {len(texts)} configurations read")


def rendered(config: dict[str, Any]) -> str:
    command = adapters.compile(capsule(METHOD, config, "1 GPU"), adapters.Machine(work_dir="/w", python="/py"))
    assert command.argv == ("/py", "eval.py", "--config", "/w/config.json")
    return command.files["config.json"]


def test_several_machines_are_refused() -> None:
    with pytest.raises(adapters.AdapterError, match="on one machine, not on 2"):
        adapters.compile(capsule(METHOD, {}, "2x8"), adapters.Machine(count=2))


def test_a_pack_that_there_is_not_is_refused_with_the_nearest() -> None:
    (refusal,) = check_config(index.entry(METHOD), {"packs": ["gsm8k", "mmlu_pro"]}, {"packs": ("config.yaml", 3)})
    assert (refusal.code, refusal.field, refusal.line) == ("param-choice", "packs[1]", 3)
    assert "mmlu-pro" in refusal.hint


def test_the_judge_is_asked_as_in_grpo_judge() -> None:
    """One client, and one way to read a grade, in both templates."""
    name = "template/judge_client.py"
    ours, theirs = (index.CATALOG / method / name for method in (METHOD, "trl/grpo-judge"))
    assert ours.read_bytes() == theirs.read_bytes()


def test_the_schema_is_what_the_template_says() -> None:
    script = ROOT / "scripts/schemas/record_settings.py"
    done = subprocess.run(
        [ROOT / ".venv/bin/python", script, "--check"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
