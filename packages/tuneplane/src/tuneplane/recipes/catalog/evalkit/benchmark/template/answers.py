"""Answers of the model to the rows of a data set, for the runners that grade answers themselves (judge, safety)."""

import json
import os
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from settings import Settings
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

SAMPLES = Path(__file__).parent / "data"


def rows_of(sample: str, limit: int | None) -> tuple[list[dict[str, Any]], int]:
    """The job's data (`data.validation`, else `data.train`), else the sample beside this script; and how many there are without `limit`."""
    source = Path(os.environ.get("VALIDATION_DATA_DIR") or os.environ.get("TRAIN_DATA_DIR") or SAMPLES / sample)
    files = [source] if source.is_file() else sorted(source.rglob("*.jsonl"))
    rows = [
        json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines() if line.strip()
    ]
    if not rows:
        raise SystemExit(f"no rows in {source}: a .jsonl file, or a directory of them, is wanted")
    return rows[:limit], len(rows)


def answer_all(rows: list[dict[str, Any]], settings: Settings, model: dict[str, Any]) -> list[str]:
    """One answer for each row's `prompt` (message list or text), in batches, at temperature 0 unless the settings say otherwise."""
    if settings.backend != "hf":
        raise SystemExit(f"runner {settings.runner} answers with transformers: set backend: hf")
    options = {"revision": model["revision"], "trust_remote_code": settings.trust_remote_code}
    tokenizer = AutoTokenizer.from_pretrained(model["tokenizer"], padding_side="left", **options)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    placed = {"device_map": "auto"} if torch.cuda.is_available() else {}
    source = model["base"] or model["name"]
    network = AutoModelForCausalLM.from_pretrained(source, dtype=settings.dtype, **options, **placed)
    if model["base"]:
        network = PeftModel.from_pretrained(network, model["name"])
    network.eval()
    model["parameters"] = network.num_parameters()
    set_seed(settings.seed)
    sampling = (
        {"do_sample": True, "temperature": settings.temperature} if settings.temperature else {"do_sample": False}
    )
    answers: list[str] = []
    for start in range(0, len(rows), settings.batch_size):
        texts = [prompt_of(row["prompt"], settings, tokenizer) for row in rows[start : start + settings.batch_size]]
        inputs = tokenizer(
            texts, return_tensors="pt", padding=True, truncation=settings.max_length is not None,
            max_length=settings.max_length, add_special_tokens=not tokenizer.chat_template,
        ).to(network.device)  # fmt: skip
        inputs.pop("token_type_ids", None)
        with torch.no_grad():
            made = network.generate(
                **inputs, max_new_tokens=settings.max_new_tokens or 256, pad_token_id=tokenizer.pad_token_id, **sampling
            )
        answers += tokenizer.batch_decode(made[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        print(f"{len(answers)} of {len(rows)} answered", flush=True)
    return answers


def prompt_of(prompt: str | list[dict[str, str]], settings: Settings, tokenizer: Any) -> str:
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if settings.system_prompt:
        messages = [{"role": "system", "content": settings.system_prompt}, *messages]
    if tokenizer.chat_template and settings.apply_chat_template:
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return "\n".join(message["content"] for message in messages) + "\n"


def as_text(prompt: str | list[dict[str, str]]) -> str:
    return prompt if isinstance(prompt, str) else "\n".join(message["content"] for message in prompt)
