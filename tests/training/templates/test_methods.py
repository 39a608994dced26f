"""Every TRL template trains for real on the CPU: metrics and samples arrive, a resumed run continues exactly, the model loads."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.training.templates.harness import Job, Run, Warm, run
from tests.training.templates.judge_server import Judge, judge_server

pytestmark = pytest.mark.timeout(900)
METHODS = ["trl/dpo", "trl/grpo", "trl/grpo-judge", "trl/kto", "trl/opsd", "trl/rloo", "trl/rm", "trl/sft"]
SEEN = {
    "trl/sft": {"train/mean_token_accuracy", "train/entropy", "validation/loss"},
    "trl/dpo": {"train/rewards/chosen", "train/rewards/rejected", "train/rewards/margins", "validation/loss"},
    "trl/kto": {"train/rewards/chosen", "train/rewards/rejected", "train/kl", "validation/loss"},
    "trl/rm": {"train/accuracy", "train/margin", "train/mean_reward", "validation/accuracy"},
    "trl/grpo": {"train/reward", "train/kl", "train/rewards/correct/mean", "train/completions/mean_length"},
    "trl/grpo-judge": {"train/reward", "train/kl", "train/rewards/judge/mean", "train/judge/ungraded"},
    "trl/opsd": {"train/distillation_loss", "train/completions/mean_length", "validation/loss"},
    "trl/rloo": {"train/reward", "train/kl", "train/rewards/only_number/mean", "train/completions/mean_length"},
}
KINDS = {
    "trl/sft": ("conversation", {"messages"}),
    "trl/dpo": ("preference", {"prompt", "chosen", "rejected"}),
    "trl/rm": ("preference", {"prompt", "chosen", "rejected"}),
    "trl/kto": ("completion", {"prompt", "completion", "reward"}),
    "trl/grpo": ("completion", {"prompt", "completion", "reward", "rewards"}),
    "trl/grpo-judge": ("completion", {"prompt", "completion", "reward", "rewards"}),
    "trl/opsd": ("completion", {"prompt", "completion"}),
    "trl/rloo": ("completion", {"prompt", "completion", "reward", "rewards"}),
}
REWARDS = {
    "trl/grpo": {"correct", "only_number"},
    "trl/rloo": {"correct", "only_number"},
    "trl/grpo-judge": {"judge"},
}
LOAD = """
import json, sys
import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer
for line in sys.stdin:
    method, *paths = json.loads(line)
    answers = []
    for path in paths:
        tokenizer = AutoTokenizer.from_pretrained(path)
        chat = [{"role": "user", "content": "What is 1 plus 1?"}]
        inputs = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        if method == "trl/rm":
            score = AutoModelForSequenceClassification.from_pretrained(path)(**inputs).logits
            answers.append([list(score.shape), bool(torch.isfinite(score).all())])
        else:
            model = AutoModelForCausalLM.from_pretrained(path)
            made = model.generate(**inputs, max_new_tokens=5, min_new_tokens=5, do_sample=False)
            answers.append([made.shape[1] - inputs["input_ids"].shape[1], isinstance(tokenizer.decode(made[0]), str)])
    print(json.dumps(answers), flush=True)
"""


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with judge_server("token") as running:
        yield running


@pytest.fixture(scope="module")
def job(judge: Judge) -> Callable[..., Job]:
    """A job of a method, with the judge that the platform would name."""

    def make(method: str, **env: str) -> Job:
        named = {"TUNEPLANE_JOB_JUDGE_ENDPOINT": judge.url, "TUNEPLANE_JOB_JUDGE_TOKEN": judge.token}
        return Job(method, env={**(named if method == "trl/grpo-judge" else {}), **env})

    return make


@pytest.fixture(scope="module")
def trained(warm: Warm, job: Callable[..., Job], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """The run of a method's template as it is, made once."""

    @cache
    def train(method: str) -> Run:
        return warm.run(job(method), tmp_path_factory.mktemp(method.replace("/", "-")))

    return train


@pytest.mark.parametrize("method", METHODS)
def test_the_template_trains_as_it_is_and_its_metrics_have_canonical_names(
    method: str, trained: Callable[[str], Run]
) -> None:
    done = trained(method)
    assert [step for step, _ in done.curves["train/loss"]] == list(range(1, 9))
    assert {"train/learning_rate", "train/grad_norm"} | SEEN[method] <= set(done.curves)
    assert [name for name in done.curves if name.startswith("raw/")] == []
    assert {event["event"] for event in done.events} >= {"hyperparams", "environment", "checkpoint"}


@pytest.mark.parametrize("method", ["trl/sft", "trl/dpo", "trl/kto", "trl/rm"])
def test_the_loss_falls(method: str, trained: Callable[[str], Run]) -> None:
    losses = [value for _, value in trained(method).curves["train/loss"]]
    assert sum(losses[-3:]) < sum(losses[:3])
    validation = [value for _, value in trained(method).curves["validation/loss"]]
    assert validation[-1] < validation[0]


def test_the_student_nears_its_teacher(trained: Callable[[str], Run]) -> None:
    validation = [value for _, value in trained("trl/opsd").curves["validation/loss"]]
    assert 0 < validation[-1] < validation[0]


def test_the_loss_of_supervised_fine_tuning_falls_visibly(trained: Callable[[str], Run]) -> None:
    losses = [value for _, value in trained("trl/sft").curves["train/loss"]]
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("method", METHODS)
def test_people_see_samples(method: str, trained: Callable[[str], Run]) -> None:
    kind, keys = KINDS[method]
    samples = trained(method).samples
    assert len(samples) >= 4
    assert {sample["kind"] for sample in samples} == {kind}
    assert all(keys <= set(sample["data"]) for sample in samples)
    if kind == "completion" and method != "trl/kto":
        assert {sample["step"] for sample in samples} == set(range(1, 9))
    if method in REWARDS:
        assert all(set(sample["data"]["rewards"]) == REWARDS[method] for sample in samples)


@pytest.mark.parametrize("method", METHODS)
def test_a_run_resumed_at_step_4_repeats_the_uninterrupted_one(
    method: str, trained: Callable[[str], Run], job: Callable[..., Job], warm: Warm, tmp_path: Path
) -> None:
    whole = trained(method)
    resumed = warm.run(job(method, TUNEPLANE_RESUME_FROM=str(whole.checkpoint(4))), tmp_path)
    assert [step for step, _ in resumed.curves["train/loss"]] == [5, 6, 7, 8]
    assert resumed.repeatable() == whole.repeatable(after=4)


@pytest.fixture(scope="module")
def load(training_runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """`load(method, *paths)`: how many tokens each model answers with, or its score's shape; one process, which imports torch once."""
    log = tmp_path_factory.mktemp("load") / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [training_runtime / "bin/python", "-c", LOAD],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip

    def ask(method: str, *paths: Path) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([method, *map(str, paths)]) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, log.read_text()[-4000:]
        return json.loads(line)

    with process:
        yield ask
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.mark.parametrize("method", METHODS)
def test_checkpoint_and_model_load_and_answer(
    method: str, trained: Callable[[str], Run], load: Callable[..., Any]
) -> None:
    done = trained(method)
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json", "model.safetensors"):
        assert (done.checkpoint(8) / name).is_file()
    expected = [[1, 1], True] if method == "trl/rm" else [5, True]
    assert load(method, done.checkpoint(8), done.out / "model") == [expected, expected]


def test_the_seed_decides_every_digit(trained: Callable[[str], Run], training_runtime: Path, tmp_path: Path) -> None:
    """Of what is sampled, too, in a process of its own. Runs of trl/sft are compared from end to end by `tests/e2e/test_trl.py`."""
    again = run(Job("trl/grpo"), training_runtime, tmp_path)
    assert again.repeatable() == trained("trl/grpo").repeatable()


@pytest.mark.parametrize("method", ["trl/sft", "trl/grpo"])
def test_another_seed_is_another_run(method: str, trained: Callable[[str], Run], warm: Warm, tmp_path: Path) -> None:
    other = warm.run(Job(method, {"max_steps": 1}, {"seed": 7}), tmp_path)
    assert other.curves["train/grad_norm"][0] != trained(method).curves["train/grad_norm"][0]
