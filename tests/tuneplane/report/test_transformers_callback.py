"""`TunePlaneCallback` in a real GRPOTrainer of the training runtime."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tuneplane.report.scripts import Reported, environment

# The runtime has a Python of its own; which one starts it makes no difference, so once is enough.
pytestmark = [
    pytest.mark.training,
    pytest.mark.skipif(sys.version_info < (3, 14), reason="tried once, with the control plane's Python"),
]

SCRIPT = """
import sys
from pathlib import Path
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer
from tuneplane.report.integrations.transformers import TunePlaneCallback

out = sys.argv[1]
words = {word: number for number, word in enumerate(["<pad>", "</s>", "<unk>", "one", "two", "three", "four"])}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
config = LlamaConfig(vocab_size=len(words), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
    num_key_value_heads=2, pad_token_id=0, eos_token_id=1, bos_token_id=1)

def length(completions, **columns):
    return [float(len(completion)) for completion in completions]

def never(completions, **columns):
    return [None] * len(completions)

callback = TunePlaneCallback()
trainer = GRPOTrainer(
    model=LlamaForCausalLM(config),
    processing_class=tokenizer,
    reward_funcs=[length, never],
    train_dataset=Dataset.from_list([{"prompt": "one two"}] * 8),
    args=GRPOConfig(output_dir=out, use_cpu=True, bf16=False, max_steps=2, save_steps=2, logging_steps=1, report_to=[], num_generations=2,
        per_device_train_batch_size=2, max_completion_length=4, hub_token="hf_secret", disable_tqdm=True),
    callbacks=[callback],
)
callback.watch(trainer)
trainer.train()
"""


def test_a_grpo_run_reports_metrics_samples_settings_and_checkpoints(training_runtime: Path, tmp_path: Path) -> None:
    reports, out = tmp_path / "reports", tmp_path / "out"
    reports.mkdir()
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    env = environment(
        reports, HF_HOME=str(tmp_path / "hf"), HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", HOME=str(tmp_path)
    )
    done = subprocess.run(
        [str(training_runtime / "bin/python"), str(script), str(out)],
        env=env,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = Reported(reports, done)
    for name in ("loss", "reward", "reward_std", "rewards/length/mean", "completions/mean_length", "train_loss"):
        assert found.points(name), name
    assert [step for step, _ in found.points("reward")] == [1, 2]
    epochs = [line["series"]["loss"]["epoch"] for line in found.lines if "loss" in line.get("series", {})]
    assert epochs
    assert "epoch" not in found.names()
    samples = found.samples()
    assert len(samples) == 4, "two of each of two steps"
    for sample in samples:
        assert sample["kind"] == "completion"
        assert sample["data"]["prompt"] == "one two"
        assert sample["data"]["reward"] == sample["data"]["rewards"]["length"]
    (hyperparams,) = found.events("hyperparams")
    assert hyperparams["max_steps"] == 2
    assert hyperparams["model_parameters"] > 0
    assert "hf_secret" not in str(found.lines)
    (facts,) = found.events("environment")
    assert facts["packages"]["trl"].startswith("1.16")
    assert facts["device"] == "cpu"
    assert found.events("checkpoint") == [{"path": str(out / "checkpoint-2"), "step": 2}]
    assert "tuneplane.report:" not in done.stderr
