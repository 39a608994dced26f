"""NeMo RL: from a capsule to a configuration that inherits its example, and a driver on Ray. CPython 3.9 and the standard library.

That the configuration is read as it is meant is proved by OmegaConf, in tests/catalog/nemo_rl.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.adapters.framework_capsules import ONE, OUT, ROLES, TWO, nemo_rl_capsule
from tuneplane import adapters
from tuneplane.adapters import AdapterError, LogHint, Machine
from tuneplane.adapters.nemo_rl import literal

WORK = "/tmp/w"


def compiled(capsule: dict[str, Any], count: int = 1, rank: int = 0) -> adapters.Command:
    return adapters.compile(capsule, Machine(rank=rank, count=count, gpus_per_node=8, work_dir=WORK))


def config_of(command: adapters.Command) -> dict[str, Any]:
    return json.loads(command.files["config.json"])


def test_the_configuration_inherits_the_example_of_its_algorithm() -> None:
    for method, example in (("grpo", "grpo_math_1B"), ("sft", "sft"), ("distillation", "distillation_math")):
        config = config_of(compiled(nemo_rl_capsule(method)))
        assert config["defaults"] == "${oc.env:NEMO_RL_DIR}/examples/configs/" + example + ".yaml"


def test_the_script_of_the_method_is_the_driver_on_a_ray_cluster() -> None:
    command = compiled(nemo_rl_capsule())
    driver = command.argv[command.argv.index(f"{WORK}/nemo_rl.sh") - 1 :]
    assert driver == (
        "sh", f"{WORK}/nemo_rl.sh", "python3", "examples/run_grpo.py", "--config", f"{WORK}/config.json",
    )  # fmt: skip
    assert command.argv[:2] == ("sh", f"{WORK}/ray.sh")
    assert command.log_hints == (LogHint("tensorboard", "logs"),)


def test_another_machine_lends_its_cards_and_starts_no_driver() -> None:
    command = compiled(nemo_rl_capsule(pools=TWO, roles=ROLES), count=3, rank=2)
    assert f"{WORK}/nemo_rl.sh" not in command.argv


def test_two_pools_are_one_cluster_of_which_a_part_generates() -> None:
    config = config_of(compiled(nemo_rl_capsule(pools=TWO, roles=ROLES), count=3))
    assert config["cluster"] == {"num_nodes": 3, "gpus_per_node": 8}
    assert config["policy"]["generation"]["colocated"] == {
        "enabled": False,
        "resources": {"num_nodes": 1, "gpus_per_node": 8},
    }
    assert config_of(compiled(nemo_rl_capsule()))["policy"]["generation"]["colocated"] == {"enabled": True}
    assert "generation" not in config_of(compiled(nemo_rl_capsule("sft")))["policy"]


def test_checkpoints_and_logs_go_to_the_out_dir_and_nothing_goes_to_a_service() -> None:
    config = config_of(compiled(nemo_rl_capsule(config={"logger": {"wandb_enabled": True, "monitor_gpus": False}})))
    assert config["checkpointing"] == {"checkpoint_dir": f"{OUT}/checkpoints"}
    assert config["logger"] == {
        "log_dir": f"{OUT}/logs", "tensorboard_enabled": True, "monitor_gpus": False,
        "wandb_enabled": False, "swanlab_enabled": False, "mlflow_enabled": False,
    }  # fmt: skip


def test_the_sample_is_used_until_the_job_names_data() -> None:
    here = f"{WORK}/lab/experiments/first/data"
    sample = config_of(compiled(nemo_rl_capsule()))["data"]
    assert sample["train"]["data_path"] == f"{here}/train.jsonl"
    assert sample["validation"] == {
        "dataset_name": "ResponseDataset", "data_path": f"{here}/validation.jsonl", "split": "train",
    }  # fmt: skip
    own = config_of(compiled(nemo_rl_capsule(train_data="/d/t.jsonl", config={"data": {"train": {"input_key": "q"}}})))
    assert own["data"]["train"] == {
        "input_key": "q", "dataset_name": "ResponseDataset", "data_path": "/d/t.jsonl", "split": "train",
        "split_validation_size": 0.05,
    }  # fmt: skip
    assert own["data"]["validation"] is None


def test_a_data_set_that_nemo_rl_knows_by_name_is_left_to_it() -> None:
    named = {"data": {"train": {"dataset_name": "gsm8k"}}}
    assert config_of(compiled(nemo_rl_capsule(config=named)))["data"]["train"] == {"dataset_name": "gsm8k"}
    listed = {"data": {"train": [{"dataset_name": "gsm8k"}, {"dataset_name": "squad"}]}}
    assert config_of(compiled(nemo_rl_capsule(config=listed)))["data"]["train"] == listed["data"]["train"]


def test_pairs_without_validation_data_are_not_validated() -> None:
    config = config_of(compiled(nemo_rl_capsule("dpo", train_data="/d/t.jsonl")))
    assert config["data"]["train"]["dataset_name"] == "BinaryPreferenceDataset"
    assert config["dpo"] == {"val_period": 0, "val_at_start": False, "val_at_end": False}


def test_the_examples_prompt_file_lies_elsewhere_and_is_not_used_unless_one_is_named() -> None:
    assert config_of(compiled(nemo_rl_capsule()))["data"]["default"]["prompt_file"] is None
    named = {"data": {"default": {"prompt_file": "prompts/cot.txt", "env_name": "math"}}}
    assert config_of(compiled(nemo_rl_capsule(config=named)))["data"]["default"] == {
        "prompt_file": "prompts/cot.txt", "system_prompt_file": None, "env_name": "math",
    }  # fmt: skip


def test_a_run_goes_on_from_a_checkpoint_that_is_put_into_its_own_folder() -> None:
    command = compiled(nemo_rl_capsule(resume_from="/srv/1/out/checkpoints/step_8"))
    at = command.argv.index("copy")
    assert command.argv[at : at + 4] == ("copy", "/srv/1/out/checkpoints/step_8", f"{OUT}/checkpoints/step_8", "--")


def test_set_values_and_fixed_keys_stand_over_the_experiments() -> None:
    capsule = nemo_rl_capsule(config={"grpo": {"max_num_steps": 1, "seed": 3}}, hyperparams={"max_steps": 2})
    capsule["recipe"]["adapter_options"]["fixed"] = {"policy.dtensor_cfg.lora_cfg.enabled": True}
    config = config_of(compiled(capsule))
    assert config["grpo"] == {"max_num_steps": 2, "seed": 3}
    assert config["policy"]["dtensor_cfg"] == {"lora_cfg": {"enabled": True}}


@pytest.mark.parametrize(
    ("text", "written"),
    [("/a/$b/{c}", "/a/$b/{c}"), ("/a/${b}", "/a/\\${b}"), ("\\${b}", "\\\\\\${b}"), ("C:\\x", "C:\\x")],
)
def test_the_platforms_own_values_are_no_interpolation(text: str, written: str) -> None:
    assert literal(text) == written


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"base_model": None}, "tp submit --model"),
        ({"base_model": "org/name@main"}, "loads no revision"),
        ({"pools": [{**ONE[0], "gpus_per_node": 0}]}, "trains on GPUs"),
        ({"pools": [TWO[0], {**TWO[1], "gpus_per_node": 4}], "roles": ROLES}, "needs equal ones"),
    ],
)
def test_what_nemo_rl_would_fail_on_is_said_before_it_starts(more: Any, words: str) -> None:
    with pytest.raises(AdapterError, match=words):
        compiled(nemo_rl_capsule(**more))


def test_a_recipe_that_names_no_algorithm_is_refused() -> None:
    capsule = nemo_rl_capsule()
    capsule["recipe"]["param_paths"] = {"learning_rate": "policy.optimizer.kwargs.lr"}
    with pytest.raises(AdapterError, match="name 0 of the sections"):
        compiled(capsule)


@pytest.fixture
def nemo_rl(tmp_path: Path) -> Path:
    """Where NeMo RL lies: a script that says how it was started."""
    root = tmp_path / "nemo rl"
    (root / "examples/configs").mkdir(parents=True)
    code = "import json, os, sys; print(json.dumps([sys.argv, os.environ['NEMO_RL_DIR'], os.environ['PYTHONPATH']]))\n"
    (root / "examples/run_grpo.py").write_text(code)
    return root


def start(experiment: Path, root: Path | None) -> subprocess.CompletedProcess[str]:
    script = experiment / "nemo_rl.sh"
    script.write_text(compiled(nemo_rl_capsule()).files["nemo_rl.sh"])
    environment = {key: value for key, value in os.environ.items() if key not in ("NEMO_RL_DIR", "PYTHONPATH")}
    if root is not None:
        environment["NEMO_RL_DIR"] = str(root)
    argv = ["sh", str(script), sys.executable, "examples/run_grpo.py", "--config", "a b"]
    return subprocess.run(
        argv, cwd=str(experiment), env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_nemo_rls_script_runs_from_where_it_lies_and_the_experiments_own_run_py_stands_in_its_place(
    tmp_path: Path, nemo_rl: Path
) -> None:
    experiment = tmp_path / "experiment"
    experiment.mkdir()
    argv, root, path = json.loads(start(experiment, nemo_rl).stdout)
    assert argv == [str(nemo_rl / "examples/run_grpo.py"), "--config", "a b"]
    assert (root, path) == (str(nemo_rl), str(nemo_rl))
    (experiment / "run.py").write_text("import sys; print(['mine', *sys.argv[1:]])\n")
    assert start(experiment, nemo_rl).stdout.strip() == "['mine', '--config', 'a b']"


def test_without_nemo_rl_the_job_says_what_to_do(tmp_path: Path) -> None:
    done = start(tmp_path, tmp_path / "none")
    assert done.returncode == 1
    assert "set NEMO_RL_DIR with tp submit --env" in done.stderr
