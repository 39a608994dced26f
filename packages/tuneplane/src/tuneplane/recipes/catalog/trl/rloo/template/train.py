"""REINFORCE leave-one-out with TRL's RLOOTrainer: reinforcement learning from reward functions.

Rows: `prompt` (message list or text) and what the reward functions below need; the sample has `answer`. Change `REWARDS`.

On the platform: `tp submit <experiment>`. By hand, in an environment that has trl: `python train.py --config config.yaml`.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

import torch
from base_model import base_model
from job_data import job_data, text
from trl import ModelConfig, RLOOConfig, RLOOTrainer, TrlParser, get_peft_config, get_quantization_config

try:
    from tuneplane.report.integrations.transformers import TunePlaneCallback
except ImportError:  # by hand, without the platform: nothing to report to
    TunePlaneCallback = None

OUT = Path(os.environ.get("TUNEPLANE_OUT_DIR") or tempfile.mkdtemp(prefix="tuneplane-"))


def correct(completions: list, answer: list[str], **columns) -> list[float]:
    """1 when the last number of the completion is the answer."""
    numbers = [re.findall(r"-?\d+", text(completion)) for completion in completions]
    return [float(bool(found) and found[-1] == right) for found, right in zip(numbers, answer, strict=True)]


def only_number(completions: list, **columns) -> list[float]:
    """The share of characters that belong to a number: teaches to answer without talk."""
    return [sum(c in "-0123456789" for c in text(it)) / max(1, len(text(it))) for it in completions]


REWARDS = [correct, only_number]  # summed, weighted by `reward_weights` of config.yaml


def main() -> None:
    args, model_args = read_config()
    train_data, validation_data = job_data()
    if validation_data is None and args.eval_strategy != "no":
        print("no validation data: evaluation is off")
        args.eval_strategy = "no"
    texts = (text(row["prompt"]) + row.get("answer", "") for row in train_data)
    callbacks = [TunePlaneCallback()] if TunePlaneCallback else []
    trainer = RLOOTrainer(
        model=base_model(args, model_args, texts, OUT),
        reward_funcs=REWARDS,
        args=args,
        train_dataset=train_data,
        eval_dataset=validation_data,
        peft_config=get_peft_config(model_args),
        quantization_config=get_quantization_config(model_args),
        callbacks=callbacks,
    )
    for callback in callbacks:
        callback.watch(trainer)  # shows its completions in the console
    trainer.train(resume_from_checkpoint=os.environ.get("TUNEPLANE_RESUME_FROM"))
    trainer.save_model(str(OUT / "model"))
    print(f"model saved to {OUT / 'model'}")


def read_config() -> tuple[RLOOConfig, ModelConfig]:
    """config.yaml as TRL's own classes check it; without a GPU the same settings run on the CPU in 32 bits."""
    device = [] if torch.cuda.is_available() else ["--use_cpu", "true", "--bf16", "false"]
    parser = TrlParser((RLOOConfig, ModelConfig))
    return parser.parse_args_and_config([*sys.argv[1:], *device, "--output_dir", str(OUT / "checkpoints")])


if __name__ == "__main__":
    main()
