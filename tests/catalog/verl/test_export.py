"""An export of verl's checkpoints by the whole command of the job: verl's own merger reads shards that look as its FSDP engine writes them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.capsule import capsule
from tuneplane import adapters
from tuneplane.runner.export_layouts import export_layout

pytestmark = [pytest.mark.catalog, pytest.mark.timeout(600)]
# A tiny model with a LoRA adapter as a checkpoint of one rank, named as peft names the weights; and what it says to a few tokens, with and
# without the adapter.
MAKE = """
import json, sys
from pathlib import Path
import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
root = Path(sys.argv[1])
torch.manual_seed(1)
size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
model = Qwen2ForCausalLM(Qwen2Config(vocab_size=16, architectures=["Qwen2ForCausalLM"], **size)).eval()
words = Tokenizer(models.WordLevel({f"w{n}": n for n in range(16)}, unk_token="w0"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
logits = lambda model: model(input_ids=torch.arange(12)[None]).logits.detach()
alone = logits(model)
tuned = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
for name, weight in tuned.named_parameters():
    if "lora_B" in name:
        torch.nn.init.normal_(weight, std=0.5)
torch.save((alone, logits(tuned.eval())), root / "logits.pt")
folder = root / "global_step_2" / "actor"
folder.mkdir(parents=True)
torch.save(dict(tuned.state_dict()), folder / "model_world_size_1_rank_0.pt")
(folder / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": 1}))
(folder / "lora_train_meta.json").write_text(json.dumps({"r": 4, "lora_alpha": 8, "task_type": "CAUSAL_LM"}))
model.config.save_pretrained(folder / "huggingface")
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0", pad_token="w1", eos_token="w2")
tokenizer.save_pretrained(folder / "huggingface")
"""
COMPARE = """
import json, sys
import torch
from transformers import AutoModelForCausalLM
alone, tuned = torch.load(sys.argv[1])
merged = AutoModelForCausalLM.from_pretrained(sys.argv[2], dtype=torch.float32).eval()
logits = merged(input_ids=torch.arange(12)[None]).logits
print(json.dumps([(logits - tuned).abs().max().item(), (tuned - alone).abs().max().item()]))
"""


@pytest.fixture(scope="module")
def python(framework_env: Callable[[str], Path]) -> Path:
    return framework_env("verl") / "bin/python"


def execute(python: Path, *argv: Any, cwd: Path) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd), "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [python, *map(str, argv)], cwd=cwd, env=env, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


def export(python: Path, root: Path, checkpoint: Path) -> Path:
    layout, out = export_layout(str(checkpoint)), root / "out"
    action = {"kind": "export", "source": str(checkpoint), **layout._asdict(), "run": "0" * 16, "step": 2}
    made = capsule("verl/grpo", {}, "1 GPU", out_dir=str(out), base_model="/models/base")
    made["action"] = {**action, "name": "merged", "merge_lora": True}
    command = adapters.compile(made, adapters.Machine(python=str(python), work_dir=str(root / "work")))
    for file, text in command.files.items():
        (root / "work" / file).parent.mkdir(parents=True, exist_ok=True)
        (root / "work" / file).write_text(text)
    assert command.argv[0] == str(python)
    execute(python, *command.argv[1:], cwd=root / "work" / command.cwd_relative)
    return out / "exports/merged"


def test_verls_merger_and_peft_make_a_model_that_transformers_loads(python: Path, tmp_path: Path) -> None:
    execute(python, "-c", MAKE, tmp_path, cwd=tmp_path)
    merged = export(python, tmp_path, tmp_path / "global_step_2")
    names = {path.name for path in merged.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tuneplane-export.json"} <= names
    assert not names & {"lora_adapter", "adapter_config.json"}
    said = execute(python, "-c", COMPARE, tmp_path / "logits.pt", merged, cwd=tmp_path)
    apart, moved = json.loads(said.splitlines()[-1])
    assert apart < 0.05 < 0.2 < moved  # verl writes bfloat16, of eight bits
