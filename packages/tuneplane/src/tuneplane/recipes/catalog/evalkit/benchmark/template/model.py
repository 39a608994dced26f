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
    """`name` (a path, or a name on the hub), `revision`, and whether its tokenizer has a chat template."""
    source = os.environ.get("INIT_MODEL_DIR") or os.environ.get("BASE_MODEL_DIR")
    given = bool(source)
    if not source:
        source = str(make_tiny(out / "tiny-model", seed))
    name, _, revision = (source, "", "") if Path(source).is_dir() else source.partition("@")
    tokenizer = AutoTokenizer.from_pretrained(name, revision=revision or None, trust_remote_code=trust_remote_code)
    return {"name": name, "revision": revision or None, "given": given, "chat_template": bool(tokenizer.chat_template)}


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
