"""On-policy self-distillation: NeMo RL's distillation with a teacher that sees the solution (privileged.py)."""

import os
import runpy
import sys

import nemo_rl.algorithms.distillation as distillation
from privileged import PrivilegedTeacher, privileged_prompts

SCRIPT = os.environ.get("NEMO_RL_DIR", "/opt/nemo-rl") + "/examples/run_distillation.py"
plain_setup = distillation.setup


def setup(config, tokenizer, train_dataset, val_dataset):
    """What NeMo RL sets up, with its teacher behind ours."""
    prompts = privileged_prompts(tokenizer, train_dataset)
    student, teacher, *rest = plain_setup(config, tokenizer, train_dataset, val_dataset)
    multiple = int(config.teacher["make_sequence_length_divisible_by"])
    return (student, PrivilegedTeacher(teacher, prompts, tokenizer.pad_token_id, multiple), *rest)


distillation.setup = setup
sys.argv[0] = SCRIPT
runpy.run_path(SCRIPT, run_name="__main__")
