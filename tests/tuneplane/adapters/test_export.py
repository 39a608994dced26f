"""The command of an export, for each framework, and what its program does with files. The weights are met in the training and catalog layers."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tuneplane import adapters
from tuneplane.adapters import AdapterError, Machine, export_files
from tuneplane.adapters.export import part_of

OUT, WORK = "/srv/jobs/1/out", "/work"
SOURCE = "/srv/jobs/0/out/checkpoints/checkpoint-8"
PART = f"{OUT}/exports/.mine.part"


def capsule(kind: str, layout: str, source: str = SOURCE, weights: str = "", **more: Any) -> dict[str, Any]:
    paths = {"out_dir": OUT, "base_model": more.pop("base", "/models/base"), "init_model": None}
    base = more.pop("asked", None)
    action = {
        "kind": "export",
        "source": source,
        "weights": weights,
        "layout": layout,
        "adapter": layout == "hf-adapter",
    }
    pool = {"name": "main", "series": "cpu", "nodes": 1, "gpus_per_node": 0, "cpus": 4}
    return {
        "jobspec": {
            "metadata": {"name": "first", "project": "lab"},
            "spec": {
                "framework": {"kind": kind, "version": "x"},
                "model": {"base": base},
                "resources": {"pools": [pool]},
            },
        },
        "recipe": {"adapter_options": {}, "param_paths": {}},
        "action": {**action, "run": "0" * 16, "step": 8, "name": "mine", "merge_lora": False, "dtype": None, **more},
        "paths": paths,
    }


def command(*given: Any, **more: Any) -> adapters.Command:
    return adapters.compile(capsule(*given, **more), Machine(python="python3", work_dir=WORK))


def converter(made: adapters.Command) -> list[str]:
    argv = list(made.argv)
    return argv[argv.index("--") + 1 :] if "--" in argv else []


def test_files_in_hugging_faces_layout_need_no_converter() -> None:
    made = command("trl", "hf", dtype="bfloat16")
    assert list(made.argv) == [
        "python3", f"{WORK}/export/export_start.py", "--source", SOURCE, "--layout", "hf", "--target", f"{OUT}/exports/mine",
        "--base", "/models/base", "--dtype", "bfloat16", "--run", "0" * 16, "--step", "8",
    ]  # fmt: skip
    assert (made.cwd_relative, made.log_hints) == ("export", ())
    assert (made.env["CUDA_VISIBLE_DEVICES"], made.env["OMP_NUM_THREADS"]) == ("", "4")
    assert "export/tuneplane/adapters/export_weights.py" in made.files


@pytest.mark.parametrize("kind", ["trl", "openrlhf", "nemo-rl"])
def test_peft_merges_where_the_framework_has_nothing_better(kind: str) -> None:
    made = command(kind, "hf-adapter", merge_lora=True)
    assert "--merge-lora" in made.argv
    assert converter(made) == []


def test_ms_swift_merges_by_its_own_program_and_copies_the_rest() -> None:
    made = command("ms-swift", "hf-adapter", merge_lora=True, dtype="float16", base="Qwen/Q@v2", asked="hf:Qwen/Q@v2")
    assert converter(made) == [
        "python3", "-m", "swift.cli.export", f"--adapters={SOURCE}", "--merge_lora=true", f"--output_dir={PART}", "--model=Qwen/Q",
        "--use_hf=true", "--model_revision=v2", "--torch_dtype=float16",
    ]  # fmt: skip
    assert converter(command("ms-swift", "hf-adapter")) == converter(command("ms-swift", "hf")) == []


def test_verl_deepspeed_and_nemo_rl_convert_first() -> None:
    verl = command("verl", "verl-fsdp", "/c/global_step_4", "actor")
    assert converter(verl) == [
        "python3", "-m", "verl.model_merger", "merge", "--backend", "fsdp", "--local_dir", "/c/global_step_4/actor", "--target_dir", PART,
    ]  # fmt: skip
    zero = command("openrlhf", "deepspeed", "/c/_actor/global_step8")
    assert converter(zero) == [
        "python3", "-m", "deepspeed.utils.zero_to_fp32", "/c/_actor", PART, "--tag", "global_step8",
    ]  # fmt: skip
    nemo = command("nemo-rl", "nemo-rl-dcp", "/c/step_5", "policy/weights")
    assert converter(nemo) == [
        "sh", f"{WORK}/nemo_rl.sh", "python3", "examples/converters/convert_dcp_to_hf.py", "--config", "/c/step_5/config.yaml",
        "--dcp-ckpt-path", "/c/step_5/policy/weights", "--hf-ckpt-path", PART,
    ]  # fmt: skip
    assert "nemo_rl.sh" in nemo.files


@pytest.mark.parametrize(
    ("kind", "layout"), [("trl", "verl-fsdp"), ("verl", "hf"), ("custom", "hf"), ("pytorch", "hf"), ("ms-swift", "deepspeed")]
)  # fmt: skip
def test_a_checkpoint_that_the_framework_does_not_write_is_refused(kind: str, layout: str) -> None:
    with pytest.raises(AdapterError, match="has no way to export a checkpoint of layout"):
        command(kind, layout)


def test_one_machine_and_one_action() -> None:
    with pytest.raises(AdapterError, match="runs on one machine, not on 2"):
        adapters.compile(capsule("trl", "hf"), Machine(rank=1, count=2))
    made = capsule("trl", "hf")
    made["action"]["kind"] = "fly"
    with pytest.raises(AdapterError, match="no adapter for the action 'fly'"):
        adapters.compile(made, Machine())


# --- the program ------------------------------------------------------------------------------------------------------


def safetensors(path: Path, *names: str) -> None:
    header: dict[str, Any] = {
        name: {"dtype": "F32", "shape": [1], "data_offsets": [n * 4, n * 4 + 4]} for n, name in enumerate(names)
    }
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"\0" * 4 * len(names))


def model(folder: Path, config: str = "config.json", weights: str = "model.safetensors") -> Path:
    folder.mkdir(parents=True)
    (folder / config).write_text("{}")
    safetensors(folder / weights, "a", "b")
    return folder


def run(root: Path, made: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """The command as the runner starts it, with this Python."""
    made["paths"]["out_dir"] = str(root / "out")
    compiled = adapters.compile(made, Machine(python=sys.executable, work_dir=str(root / "work")))
    for name, text in compiled.files.items():
        (root / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "work" / name).write_text(text)
    return subprocess.run(
        compiled.argv, cwd=root / "work/export", env={**os.environ, **compiled.env, "PATH": f"{root}:{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_models_files_are_copied_and_the_trainers_are_not(tmp_path: Path) -> None:
    source = model(tmp_path / "checkpoint-8")
    (source / "global_step8").mkdir()
    for name in (
        "optimizer.pt",
        "rng_state_0.pth",
        "trainer_state.json",
        "COMPLETE",
        "tokenizer.json",
        "chat_template.jinja",
    ):
        (source / name).touch()
    done = run(tmp_path, capsule("trl", "hf", str(source)))
    assert done.returncode == 0, done.stderr
    made = tmp_path / "out/exports/mine"
    names = {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja", "tuneplane-export.json"}
    assert {path.name for path in made.iterdir()} == names
    record = json.loads((made / "tuneplane-export.json").read_text())
    assert (record["run"], record["step"], record["merged_lora"], record["adapter"]) == ("0" * 16, 8, False, False)
    assert f"{made}: 4 files" in done.stdout
    assert list((tmp_path / "out/exports").iterdir()) == [made]


def test_a_second_start_after_a_kill_begins_anew(tmp_path: Path) -> None:
    source = model(tmp_path / "checkpoint-8", "adapter_config.json", "adapter_model.safetensors")
    left = Path(part_of(str(tmp_path / "out/exports/mine")))
    left.mkdir(parents=True)
    (left / "half").touch()
    assert run(tmp_path, capsule("trl", "hf-adapter", str(source))).returncode == 0
    assert not left.exists()
    assert not (tmp_path / "out/exports/mine/half").exists()


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda source: (source / "model.safetensors").unlink(), "holds no weights"),
        (lambda source: (source / "model.safetensors").write_bytes(b""), "model.safetensors is missing or empty"),
        (lambda source: (source / "model.safetensors").write_bytes(struct.pack("<Q", 9) + b"{}"), "is cut off"),
        (lambda source: (source / "model.safetensors").write_bytes(struct.pack("<Q", 2) + b"{{"), "cannot be read"),
        (lambda source: (source / "config.json").write_text("["), "is not JSON"),
        (lambda source: (source / "config.json").write_text("[]"), "holds no keys and values"),
        (lambda source: (source / "config.json").unlink(), "config.json cannot be read: No such file"),
    ],
)
def test_what_is_not_whole_gets_no_name(tmp_path: Path, broken: Any, said: str) -> None:
    source = model(tmp_path / "checkpoint-8")
    broken(source)
    done = run(tmp_path, capsule("trl", "hf", str(source)))
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert said in done.stderr
    assert not (tmp_path / "out/exports/mine").exists()


def test_a_shard_of_the_index_must_be_there(tmp_path: Path) -> None:
    source = model(tmp_path / "checkpoint-8", weights="model-1.safetensors")
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (source / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "model-2.safetensors is missing" in run(tmp_path, capsule("trl", "hf", str(source))).stderr
    safetensors(source / "model-2.safetensors", "b")
    assert run(tmp_path, capsule("trl", "hf", str(source))).returncode == 0


def test_a_cut_off_file_is_seen(tmp_path: Path) -> None:
    safetensors(tmp_path / "x.safetensors", "a", "b")
    whole = (tmp_path / "x.safetensors").read_bytes()
    (tmp_path / "x.safetensors").write_bytes(whole[:-1])
    with pytest.raises(export_files.ExportError, match="is cut off"):
        export_files.tensors_of(str(tmp_path / "x.safetensors"))


def fake(root: Path, script: str) -> None:
    """A `sh` in front of the real one, which stands for NeMo RL's converter; its last argument is where it writes."""
    (root / "sh").write_text(f"#!{sys.executable}\nimport os, sys, shutil\nargv = sys.argv\nto = argv[-1]\n{script}\n")
    (root / "sh").chmod(0o755)


def test_a_converter_that_fails_leaves_nothing(tmp_path: Path) -> None:
    fake(tmp_path, "os.makedirs(to); sys.exit(3)")
    done = run(tmp_path, capsule("nemo-rl", "nemo-rl-dcp", "/c/step_5", "policy/weights"))
    assert (done.returncode, "the converter exited with 3" in done.stderr) == (1, True)
    assert not (tmp_path / "out/exports/mine").exists()


def test_what_a_converter_wrote_is_checked_and_named(tmp_path: Path) -> None:
    source = model(tmp_path / "converted")
    fake(tmp_path, f"assert not os.path.exists(to); shutil.copytree({str(source)!r}, to)")
    done = run(tmp_path, capsule("nemo-rl", "nemo-rl-dcp", "/c/step_5", "policy/weights"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/exports/mine/tuneplane-export.json").is_file()
    fake(tmp_path, "os.makedirs(to)")
    done = run(tmp_path, capsule("nemo-rl", "nemo-rl-dcp", "/c/step_5", "policy/weights", name="other"))
    assert "config.json cannot be read" in done.stderr


MERGER = """
import os, sys
to = sys.argv[sys.argv.index("--target_dir") + 1]
os.makedirs(to + "/lora_adapter")
for name in ("tokenizer.json", "config.json", "lora_adapter/adapter_config.json"):
    open(to + "/" + name, "w").write("{}")
os.link(sys.argv[sys.argv.index("--local_dir") + 1] + "/weights", to + "/lora_adapter/adapter_model.safetensors")
"""


def test_of_verls_lora_the_adapter_alone_is_kept(tmp_path: Path) -> None:
    """verl's merger writes the base model too, and the adapter below it without its base's name."""
    safetensors(tmp_path / "weights", "a")
    merger = tmp_path / "work/export/verl/model_merger.py"  # first on the path of `python -m` there
    merger.parent.mkdir(parents=True)
    merger.write_text(MERGER)
    done = run(tmp_path, capsule("verl", "verl-fsdp", str(tmp_path)))
    assert done.returncode == 0, done.stderr
    made = tmp_path / "out/exports/mine"
    names = {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json", "tuneplane-export.json"}
    assert {path.name for path in made.iterdir()} == names
    assert json.loads((made / "adapter_config.json").read_text()) == {"base_model_name_or_path": "/models/base"}
    assert list((tmp_path / "out/exports").iterdir()) == [made]
