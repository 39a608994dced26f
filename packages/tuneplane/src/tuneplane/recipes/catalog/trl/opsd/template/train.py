"""On-policy self-distillation with TRL's SDFTTrainer: the model learns from itself, where itself has read the solution.

Rows: `prompt` (message list or text) and `solution`, which the teacher alone sees: a worked solution, a hint, a document.

On the platform: `tp submit <experiment>`. By hand, in an environment that has trl: `python train.py --config config.yaml`.
"""

import os
import sys
import tempfile
from pathlib import Path

# SDFTTrainer is experimental in TRL, which says so at each start; the runtime pins its version.
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
from base_model import base_model
from job_data import job_data, text
from transformers import TrainerCallback
from trl import ModelConfig, TrlParser, get_peft_config, get_quantization_config
from trl.experimental.sdft import SDFTConfig, SDFTTrainer

try:
    from tuneplane.report import log_samples
    from tuneplane.report.integrations.transformers import TunePlaneCallback
except ImportError:  # by hand, without the platform: nothing to report to
    log_samples, TunePlaneCallback = None, None

OUT = Path(os.environ.get("TUNEPLANE_OUT_DIR") or tempfile.mkdtemp(prefix="tuneplane-"))


class ShowAnswers(TrainerCallback):
    """Shows some of the student's answers in the console; TRL hands each batch to callbacks as tokens."""

    def on_self_distillation_batch_prepared(
        self, args, state, control, model, processing_class, prompt_ids, completion_ids, **teacher
    ) -> None:
        if not model.training or not state.is_world_process_zero:
            return
        prompts, answers = (
            processing_class.batch_decode(ids[:4], skip_special_tokens=True) for ids in (prompt_ids, completion_ids)
        )
        rows = [{"prompt": prompt, "completion": answer} for prompt, answer in zip(prompts, answers, strict=True)]
        log_samples(rows, step=state.global_step + 1, kind="completion")


def main() -> None:
    args, model_args = read_config()
    train_data, validation_data = job_data()
    if validation_data is None and args.eval_strategy != "no":
        print("no validation data: evaluation is off")
        args.eval_strategy = "no"
    texts = (text(row["prompt"]) + text(row["solution"]) for row in train_data)
    # TRL's name for what only the teacher sees.
    train_data, validation_data = (
        data and data.rename_column("solution", "privileged_context") for data in (train_data, validation_data)
    )
    model = base_model(args, model_args, texts, OUT)
    if quantization := get_quantization_config(model_args):
        args.model_init_kwargs["quantization_config"] = quantization
    trainer = SDFTTrainer(
        model=model,
        args=args,
        train_dataset=train_data,
        eval_dataset=validation_data,
        peft_config=get_peft_config(model_args),
        callbacks=[TunePlaneCallback(), ShowAnswers()] if TunePlaneCallback else [],
    )
    trainer.train(resume_from_checkpoint=os.environ.get("TUNEPLANE_RESUME_FROM"))
    trainer.save_model(str(OUT / "model"))
    print(f"model saved to {OUT / 'model'}")


def read_config() -> tuple[SDFTConfig, ModelConfig]:
    """config.yaml as TRL's own classes check it; without a GPU the same settings run on the CPU in 32 bits."""
    device = [] if torch.cuda.is_available() else ["--use_cpu", "true", "--bf16", "false"]
    parser = TrlParser((SDFTConfig, ModelConfig))
    return parser.parse_args_and_config([*sys.argv[1:], *device, "--output_dir", str(OUT / "checkpoints")])


if __name__ == "__main__":
    main()
