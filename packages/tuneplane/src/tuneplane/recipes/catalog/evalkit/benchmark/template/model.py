"""The model to evaluate: the one given with `tp submit --model …`, else a tiny random one that needs no download (and knows nothing)."""

import json
import os
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed

PAD, START, END = "<|pad|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def find_model(out: Path, seed: int, trust_remote_code: bool) -> dict[str, Any]:
    """`name` (a path, or a name on the hub), `revision`, and whether its tokenizer has a chat template.

    `base`: of adapters (LoRA) the model that they belong to, None for a whole model. `tokenizer`: where it is.
    """
    source = os.environ.get("INIT_MODEL_DIR") or os.environ.get("BASE_MODEL_DIR")
    given = bool(source)
    if not source:
        source = str(make_tiny(out / "tiny-model", seed))
    name, _, revision = (source, "", "") if Path(source).is_dir() else source.partition("@")
    base = base_of(Path(name))
    words = name if base is None or (Path(name) / "tokenizer_config.json").is_file() else base
    tokenizer = AutoTokenizer.from_pretrained(words, revision=revision or None, trust_remote_code=trust_remote_code)
    return {
        "name": name, "revision": revision or None, "given": given, "chat_template": bool(tokenizer.chat_template), "base": base,
        "tokenizer": words,
    }  # fmt: skip


def base_of(directory: Path) -> str | None:
    """The base of a directory of adapters: the job's own base model, else the one that they name. `SystemExit` when it is not here."""
    described = directory / "adapter_config.json"
    if not described.is_file() or (directory / "config.json").is_file():
        return None
    base = os.environ.get("BASE_MODEL_DIR")
    if not base or Path(base) == directory:
        base = json.loads(described.read_text(encoding="utf-8"))["base_model_name_or_path"]
    if base.startswith("/") and not Path(base).is_dir():
        raise SystemExit(
            f"{directory} holds adapters, and their base model {base} is not on this machine: merge them first, with tp export"
        )
    return base


def make_tiny(target: Path, seed: int) -> Path:
    """A byte-level vocabulary learned from the samples beside this file, and random weights."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = (path.read_text(encoding="utf-8") for path in sorted((Path(__file__).parent / "data").glob("*.jsonl")))
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=[PAD, START, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((str(json.loads(line)) for text in texts for line in text.splitlines()), trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, chat_template=CHAT_TEMPLATE
    )
    set_seed(seed)
    config = LlamaConfig(
        vocab_size=len(fast), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=2048, pad_token_id=fast.pad_token_id, bos_token_id=None,
        eos_token_id=fast.eos_token_id,
    )  # fmt: skip
    fast.save_pretrained(target)
    LlamaForCausalLM(config).save_pretrained(target)
    return target
