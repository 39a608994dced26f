"""Group relative policy optimisation with TRL's GRPOTrainer, rewarded by a judge model: for answers that no function can check.

Rows: `prompt` (message list or text), and `reference` where there is a right answer. The judge and its rubric are in judge.py.

On the platform: `tp submit <experiment>`. By hand, in an environment that has trl: `python train.py --config config.yaml`.
"""

import os
import sys
import tempfile
from pathlib import Path

import torch
from base_model import base_model
from job_data import job_data, text
from judge import Judge
from trl import GRPOConfig, GRPOTrainer, ModelConfig, TrlParser, get_peft_config, get_quantization_config

try:
    from tuneplane.report.integrations.transformers import TunePlaneCallback
except ImportError:  # by hand, without the platform: nothing to report to
    TunePlaneCallback = None

OUT = Path(os.environ.get("TUNEPLANE_OUT_DIR") or tempfile.mkdtemp(prefix="tuneplane-"))


def main() -> None:
    judge = Judge()  # first of all: without a judge there is nothing to train for
    args, model_args = read_config()
    train_data, validation_data = job_data()
    if validation_data is None and args.eval_strategy != "no":
        print("no validation data: evaluation is off")
        args.eval_strategy = "no"
    texts = (text(row["prompt"]) + (row.get("reference") or "") for row in train_data)
    callbacks = [TunePlaneCallback()] if TunePlaneCallback else []
    trainer = GRPOTrainer(
        model=base_model(args, model_args, texts, OUT),
        # The judge alone: an answer that it cannot grade must stay without a reward, and another function would give it one.
        reward_funcs=[judge],
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


def read_config() -> tuple[GRPOConfig, ModelConfig]:
    """config.yaml as TRL's own classes check it; without a GPU the same settings run on the CPU in 32 bits."""
    device = [] if torch.cuda.is_available() else ["--use_cpu", "true", "--bf16", "false"]
    parser = TrlParser((GRPOConfig, ModelConfig))
    return parser.parse_args_and_config([*sys.argv[1:], *device, "--output_dir", str(OUT / "checkpoints")])


if __name__ == "__main__":
    main()
