"""The published manifests: runtimes pinned, both languages, metrics under canonical names."""

from __future__ import annotations

import re

import pytest

from tests.services.session import ROOT
from tuneplane.recipes import index

TRL = [method for method in index.methods() if method.startswith("trl/")]


@pytest.mark.parametrize("method", TRL)
def test_the_runtime_is_pinned_to_what_the_tests_train_with(method: str) -> None:
    """The matrix names the packages that matter; requirements/runtime-trl-1.16.txt holds them and all they need."""
    runtime = index.entry(method)["manifest"]["runtime"]["versions"]["1.16"]
    assert (runtime["runtime_id"], runtime["python"]) == ("trl-1.16", "3.11")
    tested = set((ROOT / "requirements/runtime-trl-1.16.txt").read_text(encoding="utf-8").splitlines())
    assert set(runtime["requires"]) <= tested
    assert {"torch", "trl", "transformers", "datasets", "accelerate", "peft"} <= {
        pin.split("==")[0] for pin in runtime["requires"]
    }


@pytest.mark.parametrize("method", index.methods())
def test_chinese_texts_are_chinese(method: str) -> None:
    chinese = index.entry(method)["manifest"]["i18n"]["zh-Hans"]
    for text in (chinese["title"], chinese["summary"], *chinese["params"].values()):
        assert re.search(r"[\u4e00-\u9fff]", text), text


@pytest.mark.parametrize("method", TRL)
def test_a_method_has_enough_documented_parameters_and_the_ones_everybody_changes(method: str) -> None:
    params = index.entry(method)["manifest"]["params"]
    assert 20 <= len(params) <= 40
    assert {"learning_rate", "max_steps", "per_device_train_batch_size", "use_peft", "seed"} <= set(params)
    assert all(param["group"] and param["doc"].endswith(".") for param in params.values())


@pytest.mark.parametrize("method", TRL)
def test_the_platforms_keys_are_known_before_a_job_fails(method: str) -> None:
    owned = index.entry(method)["manifest"]["adapter_options"]["owned"]
    assert {"output_dir", "model_name_or_path", "dataset_name", "report_to", "use_cpu"} <= set(owned)


def test_custom_takes_no_parameters_and_is_observed_from_outside() -> None:
    manifest = index.entry("custom/custom")["manifest"]
    assert manifest["params"] == {}
    assert manifest["adapter_options"]["observability"] == "external"
    assert manifest["entrypoint"] == {"kind": "experiment", "value": "train.sh"}
    assert manifest["runtime"]["versions"]["1.0"]["runtime_id"] == "custom"
