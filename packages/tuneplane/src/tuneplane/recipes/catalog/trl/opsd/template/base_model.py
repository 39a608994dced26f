"""The model to train: the one given with `tp submit --model …`, else a tiny random model that needs no download.

The tiny model lets the experiment run anywhere in seconds, so that data, rewards and settings can be tried before a GPU is asked for.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GraniteConfig,
    GraniteForCausalLM,
    LlamaConfig,
    LlamaForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    set_seed,
)
from trl import ModelConfig

PAD, START, END = "<|pad|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.role == 'assistant' %}{% generation %}{{ message.content }}<|im_end|>{% endgeneration %}"
    "{% else %}{{ message.content }}<|im_end|>{% endif %}\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def base_model(args, model_args: ModelConfig, texts: Iterable[str], out: Path, reward: bool = False) -> str:
    """Name or path of the model, for a TRL trainer to load with its tokenizer; sets how in `args.model_init_kwargs`.

    The tiny model learns its vocabulary from `texts` and is kept below `out`; `reward` gives it one score instead of next tokens.
    """
    source = os.environ.get("INIT_MODEL_DIR") or os.environ.get("BASE_MODEL_DIR") or model_args.model_name_or_path
    if not source:
        source = str(out / "tiny-model")
        with args.main_process_first(local=False):
            if args.process_index == 0:
                tokenizer = tiny_tokenizer(texts)
                tokenizer.save_pretrained(source)
                tiny_model(tokenizer, args.seed, reward).save_pretrained(source)
    name, _, revision = (source, "", "") if Path(source).is_dir() else source.partition("@")
    args.model_init_kwargs = {
        "revision": revision or model_args.model_revision,
        "dtype": model_args.dtype,
        "attn_implementation": model_args.attn_implementation,
        **(args.model_init_kwargs or {}),
    }
    return name


def tiny_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE of 512 pieces, learned from the texts: nothing is out of vocabulary."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=[PAD, START, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, chat_template=CHAT_TEMPLATE
    )


def tiny_model(tokenizer: PreTrainedTokenizerFast, seed: int, reward: bool) -> PreTrainedModel:
    """1.5 million random weights, the same for the same seed.

    Weights start small, and the language model's logits are scaled up to match, so that it learns visibly within a few steps
    at the learning rates that suit real models.
    """
    set_seed(seed)
    shape = {
        "vocab_size": len(tokenizer),
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": 4096,
        "initializer_range": 2e-4,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
    }
    if reward:
        return LlamaForSequenceClassification(LlamaConfig(num_labels=1, **shape))
    return GraniteForCausalLM(GraniteConfig(logits_scaling=0.003, **shape))
