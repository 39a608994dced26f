"""What a job of some recipes must be given besides its configuration: a base model, training data. Asked on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _


def missing_inputs(manifest: Mapping[str, Any], model: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[Refusal]:
    """One refusal for each thing that the recipe needs and the job does not name. `model`, `data`: `spec.model` and `spec.data` of the
    JobSpec; empty values count as none. Codes: `model-missing`, `data-missing`."""
    needs = manifest["adapter_options"].get("needs") or ()
    if "model" in needs and not (model.get("base") or model.get("init_from")):
        yield Refusal(
            "model-missing",
            _("{method} trains a model that you name, and none was named").format(method=manifest["name"]),
            _("add --model hf:owner/name, or the path of a model that the machines can read"),
            field="spec.model.base",
        )
    if "train_data" in needs and not data.get("train"):
        yield Refusal(
            "data-missing",
            _("{method} needs training data, and none was named").format(method=manifest["name"]),
            _("add --train-data, or data.train to config.yaml"),
            field="spec.data.train",
        )
