"""A recipe whose template alone cannot run says what a job must name; both sides refuse a job without it."""

from __future__ import annotations

from typing import Any

import pytest

from tuneplane.recipes.needs import missing_inputs


@pytest.mark.parametrize(
    ("needs", "model", "data", "codes"),
    [
        ([], {}, {}, []),
        (["model"], {}, {}, [("model-missing", "spec.model.base")]),
        (["model"], {"base": None, "init_from": None}, {}, [("model-missing", "spec.model.base")]),
        (["model"], {"base": "hf:owner/name"}, {}, []),
        (["model"], {"init_from": "run/0123456789abcdef/checkpoint"}, {}, []),
        (["model", "train_data"], {}, {"validation": {"path": "/d"}},
         [("model-missing", "spec.model.base"), ("data-missing", "spec.data.train")]),
        (["train_data"], {}, {"train": {"path": "/d"}}, []),
    ],
)  # fmt: skip
def test_what_a_recipe_needs_is_asked_for(
    needs: list[str], model: dict[str, Any], data: dict[str, Any], codes: list[tuple[str, str]]
) -> None:
    manifest = {"name": "verl/grpo", "adapter_options": {"needs": needs}}
    found = list(missing_inputs(manifest, model, data))
    assert [(item.code, item.field) for item in found] == codes
    assert all(item.hint for item in found)
