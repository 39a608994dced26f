"""Supervised fine-tuning with TRL's SFTTrainer. Rows: `messages` (role, content); also `prompt` + `completion`, or `text`.

On the platform: `tp submit <experiment>`. By hand, in an environment that has trl: `python train.py --config config.yaml`.
"""

import os
import sys
import tempfile
from pathlib import Path

import torch
from base_model import base_model
from job_data import job_data, text
from trl import ModelConfig, SFTConfig, SFTTrainer, TrlParser, get_peft_config, get_quantization_config

try:
    from tuneplane.report import log_samples
    from tuneplane.report.integrations.transformers import TunePlaneCallback
except ImportError:  # by hand, without the platform: nothing to report to
    log_samples, TunePlaneCallback = None, None

OUT = Path(os.environ.get("TUNEPLANE_OUT_DIR") or tempfile.mkdtemp(prefix="tuneplane-"))


def main() -> None:
    args, model_args = read_config()
    train_data, validation_data = job_data()
    if validation_data is None and args.eval_strategy != "no":
        print("no validation data: evaluation is off")
        args.eval_strategy = "no"
    texts = (row_text(row) for row in train_data)
    trainer = SFTTrainer(
        model=base_model(args, model_args, texts, OUT),
        args=args,
        train_dataset=train_data,
        eval_dataset=validation_data,
        peft_config=get_peft_config(model_args),
        quantization_config=get_quantization_config(model_args),
        callbacks=[TunePlaneCallback()] if TunePlaneCallback else [],
    )
    if log_samples and trainer.is_world_process_zero() and "messages" in train_data.column_names:
        rows = train_data.select(range(min(4, len(train_data))))
        log_samples([{"messages": row["messages"]} for row in rows], step=0, kind="conversation")
    trainer.train(resume_from_checkpoint=os.environ.get("TUNEPLANE_RESUME_FROM"))
    trainer.save_model(str(OUT / "model"))
    print(f"model saved to {OUT / 'model'}")


def read_config() -> tuple[SFTConfig, ModelConfig]:
    """config.yaml as TRL's own classes check it; without a GPU the same settings run on the CPU in 32 bits."""
    device = [] if torch.cuda.is_available() else ["--use_cpu", "true", "--bf16", "false"]
    parser = TrlParser((SFTConfig, ModelConfig))
    return parser.parse_args_and_config([*sys.argv[1:], *device, "--output_dir", str(OUT / "checkpoints")])


def row_text(row: dict) -> str:
    return "\n".join(text(row[column]) for column in ("messages", "prompt", "completion", "text") if column in row)


if __name__ == "__main__":
    main()
