"""ms-swift trains for real, on a CPU: each method's own template, with the flags that the adapter renders, and a tiny random model.

The Megatron methods need CUDA from the first step on; tests/catalog/ms_swift parses theirs.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.services.ports import free_port
from tests.training.templates.harness import Curve, Job, compiled, prepare
from tuneplane import adapters
from tuneplane.recipes import index
from tuneplane.runner.checkpoints import problem_of
from tuneplane.runner.export_layouts import export_layout
from tuneplane.runner.metric_names import MetricNames
from tuneplane.runner.tails.json_lines import JsonLinesTail

pytestmark = [pytest.mark.training, pytest.mark.timeout(900)]
METHODS = [name for name in index.methods() if name.startswith("ms-swift/") and "megatron" not in name]
# The architecture says less than a real model's name: which template it was trained with.
SMALL = {
    "model_type": "qwen2", "template": "qwen2_5", "torch_dtype": "float32", "per_device_eval_batch_size": 16, "max_steps": 2,
    "per_device_train_batch_size": 4, "eval_steps": 2, "save_steps": 2, "dataloader_num_workers": 0, "dataloader_persistent_workers": False,
}  # fmt: skip
ROLLOUT = {"max_completion_length": 8}
RESUMED = "resumed"
TRAINED, ABORTED_AT_THE_END = "End time of running main", "terminate called without an active exception"
# What every run logs, and what the method's own page shows first.
ALWAYS = {"train/loss", "train/grad_norm", "train/learning_rate", "train/mean_loss", "system/seconds_per_step"}


class Trained:
    """`curves` of each run under canonical names; `out` its out dir."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def out(self, name: str) -> Path:
        return self.root / name.replace("/", "-") / "out"

    def log(self, name: str) -> str:
        return (self.root / name.replace("/", "-") / "log").read_text(encoding="utf-8")[-6000:]

    def curves(self, name: str, method: str) -> dict[str, Curve]:
        """As the runner reads them: from the file that the adapter hints at, renamed as the recipe says."""
        names = MetricNames(index.entry(method)["manifest"]["metrics"]["aliases"])
        curves: dict[str, Curve] = {}
        for scalars in JsonLinesTail(str(self.out(name)), "checkpoints/logging.jsonl").scalars(0.0, final=True):
            for key, value in (scalars.values if scalars else {}).items():
                canonical = names.canonical(key)
                assert canonical is not None
                assert scalars is not None
                curves.setdefault(canonical, []).append((scalars.step, value))
        return curves


def case(python: Path, root: Path, name: str, method: str, config: dict[str, Any], **paths: str) -> dict[str, Any]:
    folder = root / name.replace("/", "-")
    folder.mkdir()
    rollout = ROLLOUT if method in ("ms-swift/grpo", "ms-swift/gkd") else {}
    job = Job(method, {**SMALL, **rollout, **config})
    capsule = prepare(job, folder / "work", folder / "out")
    capsule["paths"].update(base_model=str(root / "model"), **paths)
    command, environment = compiled(job, capsule, python.parent.parent, folder, adapters.Machine())
    module = command.argv.index("--module") + 1
    return {
        "argv": command.argv[module:],
        "cwd": str(folder / "work" / command.cwd_relative),
        "env": {**environment, "MODELSCOPE_CACHE": str(root / "modelscope")},
        "log": str(folder / "log"),
    }


@pytest.fixture(scope="module")
def trained(framework_env: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Trained:
    python, done = framework_env("ms-swift") / "bin/python", Trained(tmp_path_factory.mktemp("ms-swift"))
    longer = {"max_steps": 4, "eval_steps": 4}
    names = [*METHODS, RESUMED]
    cases = [case(python, done.root, method, method, longer if method == "ms-swift/sft" else {}) for method in METHODS]
    checkpoint = str(done.out("ms-swift/sft") / "checkpoints/checkpoint-2")
    cases.append(case(python, done.root, RESUMED, "ms-swift/sft", longer, resume_from=checkpoint))
    ran = subprocess.run(
        [python, Path(__file__).with_name("forks.py"), done.root / "model"],
        input="".join(json.dumps(item) + "\n" for item in cases), capture_output=True, text=True, timeout=800, check=False,
        env={"HOME": str(done.root), "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "MODELSCOPE_CACHE": str(done.root / "modelscope")},
    )  # fmt: skip
    codes = [json.loads(line)["code"] for line in ran.stdout.splitlines()]
    assert len(codes) == len(cases), ran.stderr[-6000:]
    failed = [name for name, code in zip(names, codes, strict=True) if code]
    assert failed == [], "\n".join(done.log(name) for name in failed)
    return done


@pytest.mark.parametrize("method", METHODS)
def test_a_method_trains_and_every_number_it_logs_has_a_name(trained: Trained, method: str) -> None:
    curves = trained.curves(method, method)
    metrics = index.entry(method)["manifest"]["metrics"]
    assert [name for name in curves if name.startswith("raw/")] == []
    assert {*ALWAYS, metrics["primary"]} <= set(curves)
    steps = [step for step, _ in curves["train/loss"]]
    assert steps == list(range(1, 5 if method == "ms-swift/sft" else 3))


@pytest.mark.parametrize("method", METHODS)
def test_its_checkpoints_lie_where_the_recipe_says_and_are_whole(trained: Trained, method: str) -> None:
    globs = index.entry(method)["manifest"]["artifacts"]["checkpoints"]
    found = {path.name: problem_of(str(path)) for glob in globs for path in trained.out(method).glob(glob)}
    last = 4 if method == "ms-swift/sft" else 2
    assert found == {f"checkpoint-{step}": None for step in range(2, last + 1, 2)}


def test_rewards_of_the_experiment_are_asked(trained: Trained) -> None:
    curves = trained.curves("ms-swift/grpo", "ms-swift/grpo")
    assert {"train/reward", "train/rewards/Correct/mean", "train/rewards/OnlyNumber/mean", "train/kl"} <= set(curves)
    assert curves["train/completions/max_length"][0][1] <= ROLLOUT["max_completion_length"]


def test_a_resumed_run_goes_on_as_the_uninterrupted_one(trained: Trained) -> None:
    whole = trained.curves("ms-swift/sft", "ms-swift/sft")
    resumed = trained.curves(RESUMED, "ms-swift/sft")
    for name in ("train/loss", "train/grad_norm", "train/learning_rate", "validation/loss"):
        assert resumed[name] == [point for point in whole[name] if point[0] > 2]


def test_two_machines_train_as_one_under_torchrun(trained: Trained, framework_env: Callable[[str], Path]) -> None:
    """One process on each, in the launcher's own processes; the first writes the log of both.

    ms-swift leaves its process group to the interpreter's end, where Gloo's threads now and then abort a process whose training is
    over (pytorch/pytorch#190489). Such a pair, and no other, is started once more.
    """
    python = framework_env("ms-swift") / "bin/python"
    name, codes, said = "two", *two_machines(trained, python, "two")
    if codes != [0, 0] and any(ABORTED_AT_THE_END in text for text in said) and all(TRAINED in text for text in said):
        name, codes, said = "two-again", *two_machines(trained, python, "two-again")
    assert codes == [0, 0], "\n".join(text[-3000:] for text in said)
    assert "world_size: 2" in said[0]
    assert [step for step, _ in trained.curves(name, "ms-swift/sft")["train/loss"]] == [1, 2]


def two_machines(trained: Trained, python: Path, name: str) -> tuple[list[int], list[str]]:
    """Exit codes and outputs. When one machine fails, the other is ended: it would wait five minutes for it."""
    root = trained.root / name
    root.mkdir()
    job = Job("ms-swift/sft", SMALL)
    capsule = prepare(job, root / "work", root / "out")
    capsule["paths"].update(base_model=str(trained.root / "model"))
    port = free_port()
    logs = [root / f"log-{rank}" for rank in range(2)]
    processes = []
    for rank, log in enumerate(logs):
        machine = adapters.Machine(rank, 2, main_port=port)
        command, environment = compiled(job, capsule, python.parent.parent, root, machine)
        with log.open("w") as output:
            processes.append(
                subprocess.Popen(
                    command.argv, cwd=root / "work" / command.cwd_relative, stdout=output, stderr=subprocess.STDOUT,
                    env={**environment, "MODELSCOPE_CACHE": str(trained.root / "modelscope")}, stdin=subprocess.DEVNULL,
                )
            )  # fmt: skip
    end = time.monotonic() + 400
    try:
        while any(process.poll() is None for process in processes) and not any(process.poll() for process in processes):
            assert time.monotonic() < end, "\n".join(log.read_text()[-3000:] for log in logs)
            time.sleep(0.1)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [process.returncode for process in processes], [log.read_text() for log in logs]


def test_an_adapter_is_merged_by_swift_export(trained: Trained, framework_env: Callable[[str], Path]) -> None:
    """By the whole command of an export job: ms-swift's converter, then the check and the name."""
    python, root = framework_env("ms-swift") / "bin/python", trained.root / "export"
    root.mkdir()
    checkpoint = trained.out("ms-swift/sft") / "checkpoints/checkpoint-4"
    layout = export_layout(str(checkpoint))
    assert (layout.layout, layout.adapter) == ("hf-adapter", True)
    action = {"kind": "export", "source": str(checkpoint), **layout._asdict(), "run": "0" * 16, "step": 4}
    job = Job("ms-swift/sft", action={**action, "name": "merged", "merge_lora": True, "dtype": "float32"})
    capsule = prepare(job, root / "work", root / "out")
    capsule["paths"].update(base_model=str(trained.root / "model"))
    command, environment = compiled(job, capsule, python.parent.parent, root, adapters.Machine())
    done = subprocess.run(
        command.argv, cwd=root / "work" / command.cwd_relative, capture_output=True, text=True, timeout=480, check=False,
        env={**environment, "MODELSCOPE_CACHE": str(trained.root / "modelscope")},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    merged = {path.name for path in (root / "out/exports/merged").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tuneplane-export.json"} <= merged
    assert "adapter_config.json" not in merged
