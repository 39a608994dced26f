"""The cross-framework keys are taken out of the config, shaped as in the JobSpec, and refused where they stand."""

from __future__ import annotations

import pytest

from tests.tuneplane.lab.conftest import LabOnDisk, refusals
from tuneplane.contract.jobspec import Data, Evaluation
from tuneplane.lab.config import ResolvedConfig, load_config


def load(demo: LabOnDisk, text: str) -> ResolvedConfig:
    demo.write("experiments/first/config.yaml", text)
    return load_config(demo.experiment.directory, demo.root)


def test_data_and_eval_leave_the_config_and_fit_the_jobspec(demo: LabOnDisk) -> None:
    found = load(
        demo,
        """
lr: 1
data:
  train: {dataset: me/chats@1, split: train}
  validation: {path: /data/held-out}
  volumes: [me/cache]
eval:
  suites: [gsm8k]
  gates:
    - {metric: validation/accuracy, min: 0.5}
  on_checkpoint: {every_steps: 100}
""",
    )
    assert found.values == {"lr": 1}
    data = Data.model_validate(found.shared.data)
    assert data.train is not None
    assert data.train.dataset == "me/chats@1"
    assert data.validation is not None
    assert data.validation.path == "/data/held-out"
    evaluation = Evaluation.model_validate(found.shared.evaluation)
    assert evaluation.gates[0].min == 0.5


def test_a_path_given_as_dataset_is_a_path(demo: LabOnDisk) -> None:
    assert load(demo, "data: {train: {dataset: /data/x}}\n").shared.data == {"train": {"path": "/data/x"}}


def test_keys_of_a_framework_below_data_stay_with_it(demo: LabOnDisk) -> None:
    found = load(demo, "data: {train_batch_size: 8, train: {shuffle: true}, volumes: [me/v]}\n")
    assert found.values == {"data": {"train_batch_size": 8, "train": {"shuffle": True}}}
    assert found.shared.data == {"volumes": ["me/v"]}


def test_a_mapping_shared_with_the_framework_is_split(demo: LabOnDisk) -> None:
    found = load(demo, "data: {train: {dataset: me/x@1, shuffle: true}}\n")
    assert found.values == {"data": {"train": {"shuffle": True}}}
    assert found.shared.data == {"train": {"dataset": "me/x@1"}}


@pytest.mark.parametrize(
    ("text", "line", "field", "code"),
    [
        ("data:\n  train:\n    dataset: chats\n", 3, "data.train.dataset", "config-invalid"),
        ("data:\n  train:\n    dataset: me/chats\n", 3, "data.train.dataset", "config-invalid"),
        ("data:\n  train:\n    dataset: 7\n", 3, "data.train.dataset", "config-invalid"),
        ("data:\n  train:\n    path: relative\n", 3, "data.train.path", "config-invalid"),
        ("data:\n  train:\n    path: /a/../b\n", 3, "data.train.path", "config-invalid"),
        ("data:\n  train:\n    dataset: /a/../b\n", 3, "data.train.dataset", "config-invalid"),
        ("data:\n  train:\n    dataset: me/x@1\n    path: /x\n", 3, "data.train.dataset", "config-invalid"),
        ("data:\n  train:\n    dataset: me/x@1\n    split: ''\n", 4, "data.train.split", "config-invalid"),
        ("data:\n  volumes: me/x\n", 2, "data.volumes", "config-invalid"),
        ("data:\n  volumes:\n    - me/x\n    - nope\n", 4, "data.volumes[1]", "config-invalid"),
        ("data:\n  trian: {dataset: me/x@1}\n", 2, "data.trian", "param-unknown"),
        ("data:\n  train:\n    datset: me/x@1\n", 3, "data.train.datset", "param-unknown"),
        ("data:\n  taskset: [1]\n", 2, "data.taskset", "config-invalid"),
        ("eval: 3\n", 1, "eval", "config-invalid"),
        ("eval:\n  suite: [x]\n", 2, "eval.suite", "param-unknown"),
        ("eval:\n  suites: gsm8k\n", 2, "eval.suites", "config-invalid"),
        ("eval:\n  gates:\n    - {min: 1}\n", 3, "eval.gates[0]", "config-invalid"),
        ("eval:\n  gates:\n    - {metric: a}\n", 3, "eval.gates[0]", "config-invalid"),
        ("eval:\n  gates:\n    - metric: a\n      min: high\n", 4, "eval.gates[0].min", "config-invalid"),
        ("eval:\n  gates:\n    - metric: a\n      mim: 1\n      max: 2\n", 4, "eval.gates[0].mim", "param-unknown"),
        ("eval:\n  gates:\n    - metric: a\n      min: 3\n      max: 2\n", 4, "eval.gates[0].min", "config-invalid"),
        ("eval:\n  on_checkpoint:\n    every_steps: 0\n", 3, "eval.on_checkpoint.every_steps", "config-invalid"),
    ],
)
def test_what_is_wrong_is_refused_where_it_stands(demo: LabOnDisk, text: str, line: int, field: str, code: str) -> None:
    (found,) = refusals(lambda: load(demo, text))
    assert (found.line, found.field, found.code) == (line, field, code)
    assert found.file == str(demo.experiment.config)


def test_keys_that_a_framework_has_below_eval_stay_with_it(demo: LabOnDisk) -> None:
    found = load(demo, "eval:\n  suites: [gsm8k]\n  steps: 4\n")
    assert found.values["eval"] == {"steps": 4}
    assert found.shared.evaluation == {"suites": ["gsm8k"]}
    assert found.positions["eval.steps"][1] == 3


def test_a_misspelt_key_gets_the_nearest_name(demo: LabOnDisk) -> None:
    (found,) = refusals(lambda: load(demo, "eval: {suits: [x]}\n"))
    assert "suites" in found.hint
