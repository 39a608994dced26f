"""Direct preference optimisation with TRL's DPOTrainer. Rows: `prompt`, `chosen`, `rejected` (message lists or text).

On the platform: `tp submit <experiment>`. By hand, in an environment that has trl: `python train.py --config config.yaml`.
"""

import os
import sys
import tempfile
from pathlib import Path

import torch
from base_model import base_model
from job_data import job_data, text
from trl import DPOConfig, DPOTrainer, ModelConfig, TrlParser, get_peft_config, get_quantization_config

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
    trainer = DPOTrainer(
        model=base_model(args, model_args, texts, OUT),
        args=args,
        train_dataset=train_data,
        eval_dataset=validation_data,
        peft_config=get_peft_config(model_args),
        quantization_config=get_quantization_config(model_args),
        callbacks=[TunePlaneCallback()] if TunePlaneCallback else [],
    )
    if log_samples and trainer.is_world_process_zero():
        rows = train_data.select(range(min(4, len(train_data))))
        log_samples([preference(row) for row in rows], step=0, kind="preference")
    trainer.train(resume_from_checkpoint=os.environ.get("TUNEPLANE_RESUME_FROM"))
    trainer.save_model(str(OUT / "model"))
    print(f"model saved to {OUT / 'model'}")


def read_config() -> tuple[DPOConfig, ModelConfig]:
    """config.yaml as TRL's own classes check it; without a GPU the same settings run on the CPU in 32 bits."""
    device = [] if torch.cuda.is_available() else ["--use_cpu", "true", "--bf16", "false"]
    parser = TrlParser((DPOConfig, ModelConfig))
    return parser.parse_args_and_config([*sys.argv[1:], *device, "--output_dir", str(OUT / "checkpoints")])


def row_text(row: dict) -> str:
    return "\n".join(text(row.get(column) or "") for column in ("prompt", "chosen", "rejected"))


def preference(row: dict) -> dict:
    """One pair as the console shows it. Without a `prompt` column, TRL takes the common start of both answers as the prompt."""
    return {column: text(row.get(column) or "") for column in ("prompt", "chosen", "rejected")}


if __name__ == "__main__":
    main()
