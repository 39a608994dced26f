"""Trainings that fail: TRL, transformers and datasets with a tiny random model on the CPU, and a hub that refuses."""

from __future__ import annotations

from tests.training.failures.cases import MOUNT, Case

TINY = """
import math, os, torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer
ROWS = [{"text": "a b c"}] * 4
def tokenizer():
    made = Tokenizer(models.WordLevel(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.train_from_iterator(["a b c d"], trainers.WordLevelTrainer(special_tokens=["<unk>", "<pad>", "<eos>"]))
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", pad_token="<pad>", eos_token="<eos>")
def model(size=16):
    shape = dict(hidden_size=size, intermediate_size=size, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2)
    return LlamaForCausalLM(LlamaConfig(vocab_size=32, max_position_embeddings=64, **shape))
def trainer(rows=ROWS, model=None, callbacks=(), **config):
    config = SFTConfig(output_dir="out", use_cpu=True, bf16=False, max_steps=2, logging_steps=1, report_to=[], **config)
    return SFTTrainer(model=model or globals()["model"](), processing_class=tokenizer(), args=config,
                      train_dataset=Dataset.from_list(rows), callbacks=list(callbacks))
"""
PARSE = """
from trl import SFTConfig, TrlParser
def parse(yaml, *arguments):
    open("config.yaml", "w").write("output_dir: out\\nuse_cpu: true\\nbf16: false\\n" + yaml)
    TrlParser((SFTConfig,)).parse_args_and_config(["--config", "config.yaml", *arguments])
"""
CUT = """
def cut(path):
    data = open(path, "rb").read()
    open(path, "wb").write(data[:len(data) // 2])
"""
MODEL_FOLDER = """
import json, os
from transformers import AutoModelForCausalLM, AutoTokenizer
def folder(**config):
    os.makedirs("m")
    if config: json.dump(config, open("m/config.json", "w"))
LLAMA = dict(model_type="llama", hidden_size=16, num_attention_heads=2, num_hidden_layers=1, intermediate_size=16, vocab_size=32)
"""

CONFIGURATIONS = [
    Case("unknown-key", "config-rejected", PARSE + 'parse("learnin_rate: 1.0e-5")', "--learnin_rate"),
    Case("wrong-type", "config-rejected", PARSE + 'parse("max_steps: many")', "invalid int value: 'many'"),
    Case("wrong-choice", "config-rejected", PARSE + 'parse("lr_scheduler_type: linearly")', "linearly is not a valid"),
    Case("unknown-flag", "config-rejected", PARSE + 'parse("", "--no_such_flag", "1")', "--no_such_flag"),
    Case("no-yaml", "config-rejected", PARSE + 'parse("save_steps: [1")', "ParserError"),
    Case(
        "unknown-argument",
        "config-rejected",
        'from trl import SFTConfig\nSFTConfig("out", learnin_rate=1)',
        "learnin_rate",
    ),
    Case(
        "contradiction",
        "config-rejected",
        TINY + 'trainer(load_best_model_at_end=True, eval_strategy="no")',
        "requires",
    ),
    Case(
        "bf16",
        "precision-unsupported",
        'from trl import SFTConfig\nSFTConfig("out", bf16=True)',
        "doesn't support bf16",
    ),
]

DATA = [
    Case(
        "file",
        "dataset-missing",
        'from datasets import load_dataset\nload_dataset("json", data_files="/no/such/train.jsonl")',
        "/no/such/train.jsonl",
    ),
    Case(
        "empty-folder",
        "dataset-missing",
        'import os\nfrom datasets import load_dataset\nos.makedirs("rows")\nload_dataset("rows")',
        "doesn't contain any data files",
    ),
    Case("pandas", "dataset-missing", 'import pandas\npandas.read_parquet("corpus.parquet")', "corpus.parquet"),
    Case(
        "not-json",
        "data-unreadable",
        'from datasets import load_dataset\nopen("t.jsonl", "w").write(\'{"text": "a"}\\n{"text": oops\\n\')\nload_dataset("json", data_files="t.jsonl", cache_dir="c")',
        "JSON parse error",
    ),
    Case(
        "not-parquet",
        "data-unreadable",
        'from datasets import load_dataset\nopen("t.parquet", "w").write("no parquet at all")\nload_dataset("parquet", data_files="t.parquet", cache_dir="c")',
        "ArrowInvalid",
    ),
    Case(
        "not-utf-8",
        "data-unreadable",
        'open("t.txt", "wb").write("语言模型".encode("gbk"))\nopen("t.txt", encoding="utf-8").read()',
        "codec can't decode",
    ),
    Case(
        "files-of-two-shapes",
        "data-columns-wrong",
        'from datasets import load_dataset\nopen("t.jsonl", "w").write(\'{"text": "a"}\\n\')\nopen("u.jsonl", "w").write(\'{"other": 3}\\n\')\nload_dataset("json", data_files=["t.jsonl", "u.jsonl"], cache_dir="c")',
        "CastError",
    ),
    Case(
        "sft-columns",
        "data-columns-wrong",
        TINY + 'trainer(rows=[{"question": "a", "answer": "b"}] * 4)',
        "KeyError: 'text'",
    ),
    Case(
        "no-chat-template",
        "chat-template-unusable",
        TINY
        + 'trainer(rows=[{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}] * 4)',
        "tokenizer.chat_template is not set",
    ),
]

MODELS = [
    Case(
        "no-folder",
        "model-missing",
        MODEL_FOLDER + 'AutoModelForCausalLM.from_pretrained("/no/such/model")',
        "/no/such/model",
    ),
    Case(
        "no-weights",
        "model-missing",
        MODEL_FOLDER + 'folder(**LLAMA)\nAutoModelForCausalLM.from_pretrained("m")',
        "no file named",
    ),
    Case(
        "no-config",
        "model-missing",
        MODEL_FOLDER + 'folder()\nAutoModelForCausalLM.from_pretrained("m")',
        "Unrecognized model",
    ),
    Case(
        "unknown-architecture",
        "model-unsupported",
        MODEL_FOLDER + 'folder(model_type="llama9")\nAutoModelForCausalLM.from_pretrained("m")',
        "model type `llama9`",
    ),
    Case(
        "no-tokenizer",
        "tokenizer-unusable",
        MODEL_FOLDER + 'folder(**LLAMA)\nAutoTokenizer.from_pretrained("m")',
        "tokenizer",
    ),
    Case(
        "no-padding",
        "tokenizer-unusable",
        TINY + 'made = tokenizer()\nmade.pad_token = None\nmade(["a b", "a"], padding=True)',
        "does not have a padding token",
    ),
    Case(
        "gated",
        "hub-unauthorized",
        'from transformers import AutoConfig\nAutoConfig.from_pretrained("org/gated")',
        "GatedRepoError",
    ),
    Case(
        "forbidden",
        "hub-unauthorized",
        'from transformers import AutoConfig\nAutoConfig.from_pretrained("org/forbidden")',
        "403",
    ),
    Case(
        "no-repository",
        "model-missing",
        'from transformers import AutoConfig\nAutoConfig.from_pretrained("org/missing")',
        "is not a valid model identifier",
    ),
    Case(
        "no-revision",
        "model-missing",
        'from transformers import AutoConfig\nAutoConfig.from_pretrained("org/revised", revision="v9")',
        "v9 is not a valid git identifier",
    ),
    Case(
        "offline",
        "hub-unreachable",
        """
import huggingface_hub.constants
huggingface_hub.constants.HF_HUB_OFFLINE = True
from transformers import AutoConfig
AutoConfig.from_pretrained("org/model")
""",
        "LocalEntryNotFoundError",
    ),
]

CHECKPOINTS = [
    Case(
        "resume-damaged",
        "checkpoint-corrupt",
        TINY
        + CUT
        + 'trainer(save_steps=1).train()\ncut("out/checkpoint-1/model.safetensors")\ntrainer().train(resume_from_checkpoint="out/checkpoint-1")',
        "SafetensorError",
    ),
    Case(
        "damaged",
        "checkpoint-corrupt",
        CUT + 'import torch\ntorch.save({"a": torch.zeros(1000)}, "x.pt")\ncut("x.pt")\ntorch.load("x.pt")',
        "PytorchStreamReader failed",
    ),
    Case(
        "no-checkpoint-at-all",
        "checkpoint-corrupt",
        'import torch\nopen("x.pt", "w").write("<html>")\ntorch.load("x.pt", weights_only=False)',
    ),
    Case(
        "resume-other-model",
        "checkpoint-incompatible",
        TINY
        + 'trainer(save_steps=1).train()\ntrainer(model=model(32)).train(resume_from_checkpoint="out/checkpoint-1")',
        "loading state_dict for LlamaForCausalLM",
    ),
    Case(
        "other-optimizer",
        "checkpoint-incompatible",
        "import torch\none = torch.optim.SGD(torch.nn.Linear(4, 4).parameters())\ntwo = torch.optim.SGD([torch.zeros(1, requires_grad=True)])\none.load_state_dict(two.state_dict())",
        "parameter group",
    ),
    Case(
        "resume-nothing",
        "checkpoint-missing",
        TINY + 'trainer().train(resume_from_checkpoint="out/checkpoint-9")',
        "Can't find a valid checkpoint at out/checkpoint-9",
    ),
    Case(
        "loss",
        "loss-not-finite",
        TINY
        + """
from transformers import TrainerCallback
class Stop(TrainerCallback):
    def on_log(self, args, state, control, logs, **more):
        if not math.isfinite(float(logs.get("loss", 0))): raise FloatingPointError(f"step {state.global_step}: {logs['loss']}")
broken = model()
with torch.no_grad(): broken.lm_head.weight.fill_(math.nan)
trainer(model=broken, callbacks=[Stop()], logging_nan_inf_filter=False).train()
""",
        "FloatingPointError: step 1: nan",
    ),
]

MOUNTED_TRAINING = [
    Case(
        "training-on-a-full-disk",
        "disk-full",
        MOUNT + 'mount("out", "size=64k")' + TINY + "trainer(model=model(128), save_steps=1).train()",
        "No space left on device",
    ),
]
