"""Real TRL on the CPU through the whole path: every method, three runtimes, kill and resume."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Client, Console
from tests.services.containers import ContainerImage
from tests.training.templates.judge_server import Judge, judge_server

pytestmark = [pytest.mark.training, pytest.mark.timeout(900)]
SEEN = {
    "trl/sft": {"train/loss", "train/learning_rate", "train/grad_norm"},
    "trl/dpo": {"train/loss", "train/rewards/chosen", "train/rewards/rejected"},
    "trl/kto": {"train/loss", "train/rewards/chosen", "train/rewards/rejected"},
    "trl/rm": {"train/loss", "train/accuracy"},
    "trl/grpo": {"train/loss", "train/reward"},
    "trl/grpo-judge": {"train/loss", "train/reward", "train/judge/ungraded"},
    "trl/rloo": {"train/loss", "train/reward"},
    "trl/opsd": {"train/loss", "train/distillation_loss"},
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, training_runtime: Path) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("trl")
    console = Console(folder / "console", {"TUNEPLANE_RUNTIMES_DIR": str(training_runtime.parent)}).start()
    yield Client(folder / "client", console, console.add_user()).prepare()
    console.stop()


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with judge_server() as running:
        yield running


@pytest.fixture(scope="module")
def trained(client: Client, judge: Judge) -> Callable[[str], str]:
    """The run of a method's template as it is, made once. The judge is the user's own."""

    @cache
    def train(method: str) -> str:
        name = method.replace("/", "-")
        client.new(name, method)
        run = client.submit(name, *(["--env", f"JUDGE_ENDPOINT={judge.url}"] if method == "trl/grpo-judge" else []))
        client.wait(run)
        return run

    return train


@pytest.mark.parametrize("method", sorted(SEEN))
def test_a_method_trains_and_its_metrics_are_seen(method: str, client: Client, trained: Callable[[str], str]) -> None:
    run = trained(method)
    metrics = client.api(f"/jobs/{run}/metrics")["metrics"]
    assert SEEN[method] <= set(metrics), sorted(metrics)
    assert client.api(f"/jobs/{run}/artifacts")["checkpoints"]
    samples = client.api(f"/jobs/{run}/samples")["items"]
    if method in ("trl/grpo", "trl/grpo-judge", "trl/rloo", "trl/opsd"):
        assert {item["kind"] for item in samples} == {"completion"}
        assert all(isinstance(item["data"]["completion"], str) for item in samples)
    elif method in ("trl/dpo", "trl/rm"):
        assert {item["kind"] for item in samples} == {"preference"}


def test_a_checkpoint_is_evaluated_and_its_report_read(
    client: Client, trained: Callable[[str], str], framework_env: Callable[[str], Path]
) -> None:
    """lm-eval itself on what TRL has left, without an experiment for it: `tp eval` sends the packaged template."""
    run = trained("trl/sft")
    options = ("--suite", "smoke", "--limit", "8", "--image", str(framework_env("lm-eval")), "--profile", "cpu")
    found = client.tp("eval", run, *options, "--wait", "--json", timeout=480).json
    steps = [point["step"] for point in client.api(f"/jobs/{run}/artifacts")["checkpoints"] if point["complete"]]
    assert (found["model"]["run"], found["model"]["step"]) == (run, max(steps))
    ((task, figure),) = [(task, figure) for task in found["tasks"] for figure in task["figures"]]
    assert (task["task"], task["n"], task["total"], figure["name"]) == ("arithmetic_sample", 8, 40, "acc")
    assert figure["low"] <= figure["value"] <= figure["high"]
    assert client.curve(found["run"], "validation/score") == [(0, pytest.approx(found["score"]))]
    assert [item["run"] for item in client.tp("bench", "ls", "--model", run, "--json").json["items"]] == [found["run"]]
    assert "8/40" in client.tp("bench", "show", found["run"]).out


def test_sft_leaves_a_checkpoint_whose_export_generates_and_is_a_base_model(
    client: Client, trained: Callable[[str], str], training_runtime: Path
) -> None:
    run = trained("trl/sft")
    losses = [value for _, value in client.curve(run, "train/loss")]
    assert losses[-1] < losses[0]
    shown = client.tp("export", run, "--dry-run").out
    assert "python3 $TUNEPLANE_WORK_DIR/export/export_start.py --source" in shown
    exported = client.tp("export", run, "--wait", "--json", timeout=480).json
    assert (exported["phase"], exported["origin"]) == ("succeeded", {"id": run, "kind": "export"})
    artifacts = client.api(f"/jobs/{exported['id']}/artifacts")
    (found,) = artifacts["exports"]
    assert (found["name"], found["size"] > 1000) == ("step-8", True)
    next_run = ("submit", "trl-sft", "--profile", "cpu", "--model", f"run/{run}/export@step=8", "--dry-run", "--json")
    assert client.tp(*next_run).json["admission"]["admitted"]
    code = (
        "import sys; from transformers import AutoModelForCausalLM as M, AutoTokenizer as T; p = sys.argv[1];"
        "m, t = M.from_pretrained(p), T.from_pretrained(p);"
        "x = t('The', return_tensors='pt'); y = m.generate(**x, max_new_tokens=4, do_sample=False); print(y.shape[1] - x['input_ids'].shape[1])"
    )
    path = Path(artifacts["out_dir"]) / found["path"]
    done = subprocess.run(
        [training_runtime / "bin/python", "-c", code, str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert 1 <= int(done.stdout) <= 4


def test_process_docker_and_podman_give_the_same_losses(
    client: Client,
    trained: Callable[[str], str],
    start_client: Callable[..., Client],
    docker_image: ContainerImage,
    podman_image: ContainerImage,
) -> None:
    expected = client.curve(trained("trl/sft"), "train/loss")
    assert len(expected) >= 4
    contained = start_client(**container_settings(docker_image))
    contained.new("same", "trl/sft")
    for image in (docker_image, podman_image):
        contained.console.stop()
        contained.console.settings = container_settings(image)
        contained.console.start()
        run = contained.submit("same", "--image", image.reference)
        contained.wait(run)
        assert contained.curve(run, "train/loss") == expected, image.engine.kind


def container_settings(image: ContainerImage) -> dict[str, str]:
    return {
        "TUNEPLANE_RUNTIME": image.engine.kind,
        "TUNEPLANE_CONTAINER_SOCKET": image.engine.url,
        "TUNEPLANE_CONTAINER_MOUNTS": ",".join(f"{path}:{path}:ro" for path in image.mounts),
    }


KILLER = """

import os, signal
from transformers import TrainerCallback


class KillOnce(TrainerCallback):
    def on_save(self, args, state, control, **kwargs):
        if state.global_step == 4 and os.environ["TUNEPLANE_ATTEMPT"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)


trainer.add_callback(KillOnce())
"""


def test_a_run_killed_at_step_4_and_resumed_ends_with_the_losses_of_an_uninterrupted_one(
    client: Client, trained: Callable[[str], str]
) -> None:
    expected = client.curve(trained("trl/sft"), "train/loss")
    assert [step for step, _ in expected] == list(range(1, 9))

    experiment = client.new("killed", "trl/sft")
    insert_before_training(experiment / "train.py", KILLER)
    run = client.submit("killed", "--retries", "infra=1")
    job = client.wait(run)
    assert job["attempt"] == 2
    first, second = job["attempts"]
    assert first["reason"]["code"]
    assert second["resume_from"].endswith("checkpoint-4")
    parts: list[dict[str, Any]] = client.api(f"/jobs/{run}/curves?name=train/loss")["series"]["train/loss"]
    assert {part["attempt"] for part in parts} == {1, 2}
    resumed = {step: value for part in parts for step, value in zip(part["step"], part["value"], strict=True)}
    assert sorted(resumed.items()) == expected


def insert_before_training(script: Path, code: str) -> None:
    """Put `code` before the line that calls `trainer.train(`, at its indentation."""
    lines = script.read_text().splitlines(keepends=True)
    index = next(n for n, line in enumerate(lines) if "trainer.train(" in line)
    indent = lines[index][: len(lines[index]) - len(lines[index].lstrip())]
    block = "".join(indent + line if line.strip() else line for line in code.splitlines(keepends=True))
    script.write_text("".join([*lines[:index], block, *lines[index:]]))
