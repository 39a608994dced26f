"""Trains with ms-swift in forks of a process that has imported it: `python forks.py MODEL < cases`, in ms-swift's own environment.

Importing takes longer than a small training. MODEL becomes a tiny random model with a vocabulary of single bytes. A line of stdin is
`{"argv": [module, flag, …], "cwd": path, "env": {…}, "log": path}`; the module runs as `python -m module` would run it. A line of stdout is
`{"code": exit code, or minus the signal}`.
"""

import gc
import json
import os
import runpy
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import torch
from swift.pipelines.train import rlhf, sft
from swift.rlhf_trainers import CPOTrainer, DPOTrainer, GKDTrainer, GRPOTrainer, KTOTrainer, ORPOTrainer, RewardTrainer
from swift.trainers import TrainerFactory
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, set_seed

SECONDS = 480  # ten on an idle machine
# Lazy modules are loaded by use.
IMPORTED = (rlhf, sft, TrainerFactory, CPOTrainer, DPOTrainer, GKDTrainer, GRPOTrainer, KTOTrainer, ORPOTrainer, RewardTrainer)  # fmt: skip
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def make_model(folder: str) -> None:
    letters = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=SPECIAL[0], eos_token=SPECIAL[2])
    fast.add_special_tokens({"additional_special_tokens": SPECIAL[1:]})
    fast.save_pretrained(folder)
    set_seed(1)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    ends = {"eos_token_id": fast.eos_token_id, "pad_token_id": fast.pad_token_id}
    config = Qwen2Config(vocab_size=len(fast), num_key_value_heads=2, max_position_embeddings=2048, **size, **ends)
    Qwen2ForCausalLM(config).save_pretrained(folder)


def become(wanted: "dict[str, Any]") -> None:
    """A process as it is when the interpreter starts the module, but for the imports."""
    os.setpgid(0, 0)
    log = os.open(wanted["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    sys.argv = list(wanted["argv"])


def perform(wanted: "dict[str, Any]") -> int:
    child = os.fork()
    if child == 0:
        become(wanted)
        runpy.run_module(wanted["argv"][0], run_name="__main__", alter_sys=True)
        sys.exit()
    late = threading.Timer(SECONDS, end_group, [child])
    late.start()
    _, status = os.waitpid(child, 0)
    late.cancel()
    end_group(child)  # what it left behind: loaders of data
    return os.waitstatus_to_exitcode(status)


def end_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def main(model: str) -> None:
    torch.set_num_threads(1)
    Path(model).mkdir()
    make_model(model)
    gc.freeze()  # a collection in a fork would copy every page
    for line in sys.stdin:
        print(json.dumps({"code": perform(json.loads(line))}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
