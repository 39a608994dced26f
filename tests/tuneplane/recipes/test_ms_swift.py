"""The templates and manifests of ms-swift: rows that its preprocessors read, short first runs, the platform's keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.services.session import ROOT
from tuneplane.recipes import index
from tuneplane.recipes.values import check_value

METHODS = [method for method in index.methods() if method.startswith("ms-swift/")]
PAIR = {"messages", "rejected_response"}
# ms-swift 4.6, `swift/dataset/preprocessor/core.py`: the columns of a row in its own format.
COLUMNS = {
    "sft": {"messages"},
    "gkd": {"messages"},
    "dpo": PAIR,
    "cpo": PAIR,
    "orpo": PAIR,
    "rm": PAIR,
    "kto": {"messages", "label"},
    "grpo": {"messages", "answer"},
    "reranker": {"messages", "positive_messages", "negative_messages"},
}


def template(method: str) -> Path:
    return index.CATALOG / method / "template"


def test_there_are_thirteen() -> None:
    megatron = {"sft", "dpo", "grpo", "gkd"}
    assert sorted([*(f"ms-swift/{name}" for name in COLUMNS), *(f"ms-swift/megatron-{m}" for m in megatron)]) == METHODS


@pytest.mark.parametrize("method", METHODS)
def test_the_sample_rows_have_the_columns_of_the_method_and_none_is_there_twice(method: str) -> None:
    kind = method.split("/")[1].removeprefix("megatron-")
    lines: list[str] = []
    for name in ("train.jsonl", "validation.jsonl"):
        rows = (template(method) / "data" / name).read_text(encoding="utf-8").splitlines()
        assert 16 <= len(rows) <= 200
        for row in map(json.loads, rows):
            assert set(row) == COLUMNS[kind]
            asks = kind in ("grpo", "reranker")  # the answer is generated, or stands in columns of its own
            assert row["messages"][-1]["role"] == ("user" if asks else "assistant")
        lines += rows
    assert len(set(lines)) == len(lines)


@pytest.mark.parametrize("method", METHODS)
def test_the_manifest_documents_what_everybody_changes(method: str) -> None:
    manifest = index.entry(method)["manifest"]
    params = manifest["params"]
    megatron = {"lr", "train_iters", "micro_batch_size", "global_batch_size", "tensor_model_parallel_size"}
    single = {"learning_rate", "max_steps", "per_device_train_batch_size", "gradient_accumulation_steps", "deepspeed"}
    assert {"max_length", "tuner_type", "seed", *(megatron if "megatron" in method else single)} <= set(params)
    assert 20 <= len(params) <= 50
    assert all(param["group"] and param["doc"].endswith(".") for param in params.values())
    assert {"model", "dataset", "val_dataset", "output_dir", "report_to"} <= set(manifest["adapter_options"]["owned"])


@pytest.mark.parametrize("method", METHODS)
def test_the_runtime_is_pinned_to_what_its_parsers_are_read_with(method: str) -> None:
    runtime = index.entry(method)["manifest"]["runtime"]["versions"]["4.6"]
    locked: set[str] = set()
    for name in ("framework-ms-swift", "runtime-trl-1.16"):
        lines = (ROOT / f"requirements/{name}.txt").read_text(encoding="utf-8").splitlines()
        # What the framework pins stands in front of the runtime's.
        names = {pin.split("==")[0] for pin in locked}
        pins = {line.split()[0].replace("huggingface-hub", "huggingface_hub") for line in lines if "==" in line}
        locked |= {pin for pin in pins if pin.split("==")[0] not in names}
    assert set(runtime["requires"]) <= locked


def test_the_methods_with_rewards_share_them() -> None:
    assert len({(template(f"ms-swift/{name}") / "rewards.py").read_bytes() for name in ("grpo", "megatron-grpo")}) == 1


@pytest.mark.parametrize(
    ("method", "key", "value", "code"),
    [
        ("dpo", "loss_type", ["sigmoyd"], "param-choice"),
        ("grpo", "loss_type", ["sigmoid"], "param-choice"),
        ("sft", "warmup_ratio", 1, "param-range"),
        ("sft", "tuner_type", "lorra", "param-choice"),
        ("sft", "max_steps", "8", "param-type"),
        ("megatron-sft", "save_total_limit", 1, "param-range"),
        ("megatron-sft", "target_modules", None, "param-type"),
        ("reranker", "task_type", "causal_lm", "param-choice"),
    ],
)
def test_what_ms_swift_refuses_late_is_refused_here(method: str, key: str, value: object, code: str) -> None:
    keys = index.config_keys(index.entry(f"ms-swift/{method}"))
    assert keys is not None
    assert [problem.code for problem in check_value(key, value, keys[key])] == [code]
