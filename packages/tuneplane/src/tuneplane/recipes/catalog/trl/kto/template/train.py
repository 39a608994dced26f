"""Kahneman-Tversky optimisation with TRL's KTOTrainer. Rows: `prompt`, `completion`, `label` (true = desirable).

On the platform: `tp submit <experiment>`. By hand, in an environment that has trl: `python train.py --config config.yaml`.
"""

import os
import sys
import tempfile
from pathlib import Path

import torch
from base_model import base_model
from job_data import job_data, text
from trl import KTOConfig, KTOTrainer, ModelConfig, TrlParser, get_peft_config, get_quantization_config

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
    trainer = KTOTrainer(
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
        log_samples([judged(row) for row in rows], step=0, kind="completion")
    trainer.train(resume_from_checkpoint=os.environ.get("TUNEPLANE_RESUME_FROM"))
    trainer.save_model(str(OUT / "model"))
    print(f"model saved to {OUT / 'model'}")


def read_config() -> tuple[KTOConfig, ModelConfig]:
    """config.yaml as TRL's own classes check it; without a GPU the same settings run on the CPU in 32 bits."""
    device = [] if torch.cuda.is_available() else ["--use_cpu", "true", "--bf16", "false"]
    parser = TrlParser((KTOConfig, ModelConfig))
    return parser.parse_args_and_config([*sys.argv[1:], *device, "--output_dir", str(OUT / "checkpoints")])


def row_text(row: dict) -> str:
    return text(row["prompt"]) + "\n" + text(row["completion"])


def judged(row: dict) -> dict:
    """One answer as the console shows it: its reward is the label, 1 for desirable and 0 for undesirable."""
    return {"prompt": text(row["prompt"]), "completion": text(row["completion"]), "reward": float(row["label"])}


if __name__ == "__main__":
    main()
