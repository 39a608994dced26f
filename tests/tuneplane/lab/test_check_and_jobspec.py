"""An experiment of the real catalog: checked completely, assembled into a JobSpec that the contract takes, previewed as it will run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tuneplane.lab.conftest import LabOnDisk
from tuneplane.contract.digests import digest_json
from tuneplane.contract.jobspec import JobSpec
from tuneplane.lab.check import Checked, check_experiment
from tuneplane.lab.experiments import Experiment
from tuneplane.lab.jobspec import Origin, SubmitOptions, assemble
from tuneplane.lab.pools import make_pools
from tuneplane.lab.preview import preview
from tuneplane.lab.provenance import GitState
from tuneplane.recipes.index import entry
from tuneplane.recipes.new import write_experiment


@pytest.fixture
def sft(demo: LabOnDisk) -> LabOnDisk:
    demo.experiment = Experiment("sft", write_experiment(demo.root, "sft", entry("trl/sft")))
    return demo


def check(demo: LabOnDisk, *overrides: str) -> Checked:
    return check_experiment(demo.lab, demo.experiment, overrides)


def set_config(demo: LabOnDisk, text: str) -> None:
    demo.write("experiments/sft/config.yaml", text)


def assembled(demo: LabOnDisk, options: SubmitOptions, *overrides: str) -> dict[str, Any]:
    checked = check(demo, *overrides)
    assert checked.refusals == ()
    assert checked.config is not None
    assert checked.lock is not None
    assert checked.entry is not None
    pools, _refusals = make_pools(["cpu"], None)
    origin = Origin("a" * 64, GitState("b" * 40, dirty=False))
    return assemble(
        demo.lab, "sft", checked.config, checked.lock, checked.entry, checked.hyperparams, pools, options, origin
    )


@pytest.mark.parametrize("method", ["trl/sft", "trl/dpo", "trl/kto", "trl/rm", "trl/grpo", "trl/rloo", "custom/custom"])
def test_every_template_is_valid_as_it_is(demo: LabOnDisk, method: str) -> None:
    demo.experiment = Experiment("x", write_experiment(demo.root, "x", entry(method)))
    assert check(demo).refusals == ()


def test_problems_of_every_kind_are_told_at_once_with_their_place(sft: LabOnDisk) -> None:
    set_config(
        sft,
        "learning_rat: 1e-4\nmax_steps: many\nwarmup_steps: -1\noutput_dir: /x\ndata: {train: {dataset: chats}}\n",
    )
    (sft.experiment.directory / "train.py").unlink()
    found = {(item.code, item.line): item for item in check(sft, "seed=x", "nope=1").refusals}
    assert set(found) == {
        ("param-unknown", 1),
        ("param-type", 2),
        ("param-range", 3),
        ("key-platform-owned", 4),
        ("config-invalid", 5),
        ("file-missing", 0),
        ("param-type", 0),
        ("param-unknown", 0),
    }
    assert "learning_rate" in found["param-unknown", 1].hint
    assert found["param-unknown", 1].file == str(sft.experiment.config)


def test_a_broken_lock_does_not_hide_a_broken_config(sft: LabOnDisk) -> None:
    sft.experiment.lock.write_text("{")
    set_config(sft, "a: [\n")
    assert [item.code for item in check(sft).refusals] == ["lock-invalid", "yaml-invalid"]


@pytest.mark.parametrize(
    ("override", "code"),
    [
        ("learning_rate", "request-invalid"),
        ("=3", "request-invalid"),
        ("learning_rate=fast", "param-type"),
        ("learning_rate=-1", "param-range"),
        ("learning_rate=nan", "number-not-finite"),
        ("learnin_rate=1", "param-unknown"),
    ],
)
def test_overrides_are_checked_like_the_config(sft: LabOnDisk, override: str, code: str) -> None:
    assert code in {item.code for item in check(sft, override).refusals}


def test_an_override_given_twice_is_refused(sft: LabOnDisk) -> None:
    assert [item.code for item in check(sft, "seed=1", "seed=2").refusals] == ["request-invalid"]


def test_the_jobspec_is_what_the_contract_takes(sft: LabOnDisk) -> None:
    set_config(
        sft,
        "max_steps: 4\ndata: {train: {dataset: me/chats@1}, volumes: [me/a]}\neval: {suites: [gsm8k]}\n",
    )
    options = SubmitOptions(
        display_name="try",
        labels={"team": "x"},
        model="hf:Qwen/Qwen3-0.6B",
        validation_data={"path": "/data/v"},
        volumes=("me/b",),
        image="registry.example/trl:1.16",
        observability_url="https://curves.example",
        env={"A": "b=c\n'\""},
        secrets=("HF_TOKEN",),
        priority=5,
        max_duration=60,
        grace=10,
        retries={"infra": 1},
    )
    raw = assembled(sft, options, "learning_rate=1e-4")
    spec = JobSpec.model_validate(json.loads(json.dumps(raw)))
    assert spec.metadata.project == "demo"
    assert spec.spec.config == {"max_steps": 4}
    assert spec.spec.hyperparams == {"learning_rate": 1e-4}
    assert spec.provenance.config_digest == digest_json({"max_steps": 4})
    assert spec.provenance.git_dirty is False
    assert spec.spec.data.train is not None
    assert spec.spec.data.train.dataset == "me/chats@1"
    assert spec.spec.data.validation is not None
    assert spec.spec.data.validation.path == "/data/v"
    assert spec.spec.data.volumes == ["me/a", "me/b"]
    assert spec.spec.evaluation.suites == ["gsm8k"]
    assert spec.spec.env["A"] == "b=c\n'\""
    assert spec.spec.limits.retries.infra == 1
    assert spec.spec.framework.runtime_id == "trl-1.16"


def test_a_bare_submission_holds_nothing_that_was_not_said(sft: LabOnDisk) -> None:
    set_config(sft, "")
    raw = assembled(sft, SubmitOptions())
    assert set(raw["spec"]) == {"recipe", "framework", "resources", "config"}
    assert raw["spec"]["config"] == {}
    JobSpec.model_validate(raw)


def test_an_option_replaces_the_data_of_the_config(sft: LabOnDisk) -> None:
    set_config(sft, "data: {train: {dataset: me/chats@1, split: a}}\n")
    raw = assembled(sft, SubmitOptions(train_data={"path": "/x"}))
    assert raw["spec"]["data"]["train"] == {"path": "/x"}


def test_the_preview_is_the_command_env_and_files_of_the_runner(sft: LabOnDisk) -> None:
    set_config(sft, "max_steps: 4\n")
    raw = assembled(sft, SubmitOptions(env={"MINE": "1"}, model="/models/m"), "learning_rate=1e-4")
    seen = preview(raw, entry("trl/sft"))
    assert seen.command[:2] == ["python3", "train.py"]
    assert seen.cwd == "lab/experiments/sft"
    config = json.loads(seen.files["config.json"])
    assert config["max_steps"] == 4
    assert config["learning_rate"] == 1e-4
    assert config["output_dir"] == "$TUNEPLANE_OUT_DIR/checkpoints"
    assert seen.env["MINE"] == "1"
    assert seen.env["BASE_MODEL_DIR"] == "/models/m"
    assert seen.env["TUNEPLANE_RECIPE"] == "trl/sft"
    assert not any(name.endswith("TOKEN") for name in seen.env)


def test_a_value_that_cannot_be_carried_does_not_hide_the_others(sft: LabOnDisk) -> None:
    set_config(
        sft, "learning_rate: .nan\nwarmup_steps: [1, .inf]\nlearning_rat: 1\nmax_steps: many\nseed: !!python/none x\n"
    )
    found = {(item.code, item.line) for item in check(sft).refusals}
    assert found == {
        ("number-not-finite", 1),
        ("number-not-finite", 2),
        ("param-unknown", 3),
        ("param-type", 4),
        ("yaml-invalid", 5),
    }
