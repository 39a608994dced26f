"""One template under other circumstances: a model and data of one's own, LoRA, several processes, several machines, odd values."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.services.ports import free_port
from tests.training.templates.harness import Job, Run, Warm, collect, launch, prepare, run
from tuneplane import adapters
from tuneplane.runner.export_layouts import export_layout

pytestmark = pytest.mark.timeout(900)
ODD = "a b 'c' \"d\" $HOME $(id) e=f\n\t训练 🚀 \u2028 \\"
# How far the logits of the export are from those of base and adapter, and these from those of the base alone.
COMPARE = """
import json, sys, torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
base, adapter, merged = sys.argv[1:]
def logits(model):
    tokens = AutoTokenizer.from_pretrained(merged)("Name three primes: 2, 3, 5.", return_tensors="pt")
    with torch.no_grad():
        return model.eval()(input_ids=tokens["input_ids"]).logits
load = AutoModelForCausalLM.from_pretrained
alone = logits(load(base))
tuned = logits(PeftModel.from_pretrained(load(base), adapter))
print(json.dumps([(logits(load(merged)) - tuned).abs().max().item(), (tuned - alone).abs().max().item()]))
"""
# What a converter leaves: a pickle in which tied weights share their numbers, in two parts.
PICKLED = """
import json, os, sys, torch
from transformers import AutoModelForCausalLM
base, folder, sources = sys.argv[1:]
sys.path.insert(0, sources)
from tuneplane.adapters.export_weights import LORA_WITHOUT_SCALE, ExportError, cast, from_pickles
model = AutoModelForCausalLM.from_pretrained(base)
model.config.save_pretrained(folder)
state = dict(model.state_dict(), **{"lm_head.weight": model.get_input_embeddings().weight})
half = len(state) // 2
parts = {f"pytorch_model-0000{n}-of-00002.bin": dict(list(state.items())[start:end]) for n, start, end in ((1, 0, half), (2, half, None))}
parts["pytorch_model-00002-of-00002.bin"]["copy"] = parts["pytorch_model-00002-of-00002.bin"]["lm_head.weight"]
for name, part in parts.items():
    torch.save(part, os.path.join(folder, name))
index = {"metadata": {}, "weight_map": {key: name for name, part in parts.items() for key in part}}
json.dump(index, open(os.path.join(folder, "pytorch_model.bin.index.json"), "w"))
from_pickles(folder)
cast(folder, "float16")
loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
apart = max((a - b).abs().max().item() for a, b in zip(model.state_dict().values(), loaded.state_dict().values()))
torch.save({"q.lora_A.weight": torch.ones(2)}, os.path.join(folder, "pytorch_model.bin"))
try:
    from_pickles(folder)
except ExportError as error:
    assert str(error) == LORA_WITHOUT_SCALE
    print(json.dumps([apart, sorted(os.listdir(folder))]))
"""
PARQUET = """
import sys
from datasets import load_dataset
load_dataset("json", data_files=sys.argv[1], split="train").to_parquet(sys.argv[2])
"""


@pytest.fixture(scope="module")
def base(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A short supervised run, for what it leaves: a model that other runs can start from."""
    return warm.run(Job("trl/sft", {"max_steps": 2}), tmp_path_factory.mktemp("base"))


def test_a_model_and_data_of_ones_own(base: Run, warm: Warm, training_runtime: Path, tmp_path: Path) -> None:
    """Data as a directory of Parquet files; training data without validation data turns evaluation off."""
    rows = tmp_path / "rows.jsonl"
    chat = [{"role": "user", "content": "Say 训练."}, {"role": "assistant", "content": "训练 🚀"}]
    rows.write_text("".join(json.dumps({"messages": chat}) + "\n" for _ in range(16)))
    (tmp_path / "data").mkdir()
    command = [training_runtime / "bin/python", "-c", PARQUET, rows, tmp_path / "data/part-0.parquet"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    env = {"BASE_MODEL_DIR": str(base.out / "model"), "TRAIN_DATA_DIR": str(tmp_path / "data")}
    done = warm.run(Job("trl/sft", {"max_steps": 2}, env=env), tmp_path / "run")
    assert not (done.out / "tiny-model").exists()
    assert "no validation data: evaluation is off" in done.log
    assert "validation/loss" not in done.curves
    assert done.samples[0]["data"]["messages"] == chat


def test_data_that_is_not_there_is_named(warm: Warm, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    job = Job("trl/sft", env={"TRAIN_DATA_DIR": str(tmp_path / "empty")})
    with pytest.raises(AssertionError, match=r"no \.jsonl or \.parquet file in .*/empty"):
        warm.run(job, tmp_path / "run")


def test_lora_trains_an_adapter_alone_and_its_export_is_the_base_of_a_next_run(
    base: Run, warm: Warm, tmp_path: Path
) -> None:
    config: dict[str, Any] = {
        "max_steps": 2,
        "use_peft": True,
        "lora_r": 4,
        "lora_target_modules": ["q_proj", "v_proj"],
    }
    job = Job("trl/sft", {**config, "learning_rate": 0.02}, env={"BASE_MODEL_DIR": str(base.out / "model")})
    (tmp_path / "run").mkdir()
    done = warm.run(job, tmp_path / "run")
    assert (done.out / "model/adapter_model.safetensors").is_file()
    assert not (done.out / "model/model.safetensors").exists()
    facts = next(event["data"] for event in done.events if event["event"] == "hyperparams")
    assert 0 < facts["model_trainable_parameters"] < facts["model_parameters"] / 10

    layout = export_layout(str(done.checkpoint(2)))
    action = {"kind": "export", "source": str(done.checkpoint(2)), **layout._asdict(), "run": "0" * 16, "step": 2}
    (tmp_path / "export").mkdir()
    exported = warm.run(Job("trl/sft", action={**action, "name": "merged", "merge_lora": True}), tmp_path / "export")
    model = exported.out / "exports/merged"
    assert not list(model.glob("adapter_*"))
    said = warm.script(COMPARE, tmp_path, base.out / "model", done.checkpoint(2), model).splitlines()[-1]
    apart, moved = json.loads(said)
    assert apart < 1e-5 < 1e-3 < moved, "the merged model is the base with its adapter, and not the base"
    (tmp_path / "next").mkdir()
    env = {"BASE_MODEL_DIR": str(model)}
    assert warm.run(Job("trl/sft", {"max_steps": 1}, env=env), tmp_path / "next").curves["train/loss"]


def test_what_a_converter_pickled_becomes_safetensors(base: Run, warm: Warm, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    sources = Path(adapters.__file__).parent.parent.parent
    said = warm.script(PICKLED, tmp_path, base.out / "model", tmp_path / "model", sources)
    apart, names = json.loads(said.splitlines()[-1])
    assert apart < 0.01  # float16
    assert {"model-00001-of-00002.safetensors", "model.safetensors.index.json"} <= set(names)
    assert [name for name in names if name.endswith(".bin")] == ["pytorch_model.bin"]  # that of LoRA, which was refused


def test_set_values_and_odd_texts_reach_trls_own_config(base: Run, warm: Warm, tmp_path: Path) -> None:
    """What the trainer says its hyper-parameters are, after YAML, TRL's parser and its config class."""
    config: dict[str, Any] = {
        "dataset_text_field": ODD,
        "lr_scheduler_kwargs": {"min_lr": 1e-06},
        "lr_scheduler_type": "cosine_with_min_lr",
        "adam_epsilon": 1e-10,
        "max_length": None,
    }
    job = Job("trl/sft", config, {"max_steps": 1, "learning_rate": 1e-05, "weight_decay": 0.25})
    done = warm.run(job, tmp_path)
    facts = next(event["data"] for event in done.events if event["event"] == "hyperparams")
    assert facts["dataset_text_field"] == ODD
    assert facts["lr_scheduler_kwargs"] == {"min_lr": 1e-06}
    assert (facts["learning_rate"], facts["weight_decay"], facts["adam_epsilon"]) == (1e-05, 0.25, 1e-10)
    assert facts["output_dir"] == str(done.out / "checkpoints")
    assert facts["report_to"] in ([], ["none"], "none")


def test_two_processes_of_one_machine_train_together(training_runtime: Path, tmp_path: Path) -> None:
    """Two simulated cards: the launcher of real ones, meeting over gloo."""
    machine = adapters.Machine(gpus_per_node=2, main_port=free_port())
    done = run(Job("trl/sft", {"max_steps": 2, "save_steps": 2, "eval_steps": 2}), training_runtime, tmp_path, machine)
    assert [step for step, _ in done.curves["train/loss"]] == [1, 2]
    assert done.ranks == {0, 1}
    facts = next(event["data"] for event in done.events if event["event"] == "environment")
    assert facts["world_size"] == 2
    assert (done.checkpoint(2) / "rng_state_1.pth").is_file()


def test_two_machines_train_together(training_runtime: Path, tmp_path: Path) -> None:
    """Two machines' commands on one host, with one storage: ranks, main address and port come from the executor."""
    job, port = Job("trl/sft", {"max_steps": 2, "save_steps": 2, "eval_steps": 2}), free_port()
    machines = [adapters.Machine(rank=rank, count=2, main_port=port) for rank in range(2)]
    out = tmp_path / "machine-0/out"
    processes = []
    for machine in machines:
        root = tmp_path / f"machine-{machine.rank}"
        capsule = prepare(job, root / "work", root / "out")
        capsule["paths"]["out_dir"] = str(out)
        job.env["TUNEPLANE_OUT_DIR"] = str(out)
        processes.append(launch(job, capsule, training_runtime, root, machine)[1])
    logs = [process.communicate(timeout=480)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(logs)[-8000:]
    done = collect(job, out, tmp_path / "machine-0/work", logs[0])
    assert [step for step, _ in done.curves["train/loss"]] == [1, 2]
    facts = next(event["data"] for event in done.events if event["event"] == "environment")
    assert facts["world_size"] == 2
    assert done.ranks == {0}
    assert collect(job, out, tmp_path / "machine-1/work", logs[1]).ranks == {1}


def test_by_hand_the_script_runs_without_the_platform(training_runtime: Path, tmp_path: Path) -> None:
    """No reporter, no variables: `python train.py --config config.yaml` as the script's first lines say."""
    prepare(Job("trl/sft"), tmp_path / "work", tmp_path / "out")
    experiment = tmp_path / "work/lab/experiments/first"
    done = subprocess.run(
        [training_runtime / "bin/python", "train.py", "--config", "config.yaml", "--max_steps", "1"],
        cwd=experiment,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("model saved to ")]
    model = Path(line.removeprefix("model saved to "))
    assert (model / "model.safetensors").is_file()
    assert not model.is_relative_to(experiment)
