"""The index as the commands read it: names, hints, languages, and whether the installed files are the recorded ones."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.tuneplane.recipes.conftest import ToyCatalog
from tuneplane.contract.refusals import RefusedError
from tuneplane.i18n import using_language
from tuneplane.recipes import index

CATALOG = {
    "custom": ["custom"],
    "evalkit": ["benchmark"],
    "ms-swift": [
        "cpo", "dpo", "gkd", "grpo", "kto", "megatron-dpo", "megatron-gkd", "megatron-grpo", "megatron-sft", "orpo",
        "reranker", "rm", "sft",
    ],
    "nemo-rl": ["distillation", "dpo", "grpo", "grpo-lora", "maxrl", "opsd", "ppo", "rm", "sft"],
    "openrlhf": ["dpo", "grpo", "ppo", "reinforce-baseline", "rm", "sft"],
    "pytorch": ["image-classification"],
    "trl": ["dpo", "grpo", "grpo-judge", "kto", "opsd", "rloo", "rm", "sft"],
    "verl": ["dapo", "distillation", "grpo", "ppo", "reinforce-baseline", "remax", "rloo", "sft"],
}  # fmt: skip


def test_a_framework_of_the_catalog_has_all_of_its_methods() -> None:
    found: dict[str, list[str]] = {}
    for method in index.methods():
        framework, _, name = method.partition("/")
        found.setdefault(framework, []).append(name)
    assert found == {framework: CATALOG[framework] for framework in found}
    assert {"custom", "trl"} <= set(found)


@pytest.mark.parametrize("method", index.methods())
def test_the_installed_files_are_those_of_the_index(method: str) -> None:
    assert index.verify(method) == []


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("trl/stf", "trl/sft"),
        ("TRL/SFT", "trl/sft"),
        ("trl/gpro", "trl/grpo"),
        ("sft", "trl/sft"),
        ("hf/kto", "trl/kto"),
    ],
)
def test_an_unknown_method_is_refused_with_the_nearest_name(wrong: str, near: str) -> None:
    with pytest.raises(RefusedError) as caught:
        index.entry(wrong)
    (refusal,) = caught.value.refusals
    assert refusal.code == "method-unknown"
    assert wrong in refusal.message
    assert refusal.hint == f"did you mean “{near}”?"


def test_a_method_like_no_other_gets_the_listing_command() -> None:
    with pytest.raises(RefusedError) as caught:
        index.entry("quantum/annealing")
    assert "tp methods" in caught.value.refusals[0].hint


def test_titles_and_parameters_come_in_the_readers_language() -> None:
    entry = index.entry("trl/sft")
    assert index.prose(entry)["title"] == "Supervised fine-tuning"
    with using_language("zh-Hans"):
        chinese = index.prose(entry)
    assert chinese["title"] == "监督微调（SFT）"
    assert chinese["params"].keys() == entry["manifest"]["params"].keys()


def test_one_byte_changed_in_the_template_is_seen(toy: ToyCatalog) -> None:
    toy.compile()
    assert index.verify("toy/sft", toy.root) == []
    (toy.recipe / "template/train.py").write_text("print('X')\n")
    (refusal,) = index.verify("toy/sft", toy.root)
    assert refusal.code == "catalog-mismatch"
    assert "template/" in refusal.message


def test_one_byte_changed_in_the_manifest_is_seen(toy: ToyCatalog) -> None:
    toy.compile()
    manifest = toy.recipe / "recipe.yaml"
    manifest.write_bytes(manifest.read_bytes() + b"#")
    (refusal,) = index.verify("toy/sft", toy.root)
    assert refusal.code == "catalog-mismatch"
    assert "recipe.yaml" in refusal.message


def test_a_file_added_or_taken_away_is_seen(toy: ToyCatalog) -> None:
    toy.compile()
    (toy.recipe / "template/extra.py").touch()
    assert index.verify("toy/sft", toy.root)
    (toy.recipe / "template/extra.py").unlink()
    (toy.recipe / "recipe.yaml").unlink()
    assert "recipe.yaml" in index.verify("toy/sft", toy.root)[0].message


def test_reading_the_index_imports_neither_yaml_nor_pydantic() -> None:
    code = (
        "import sys; from tuneplane.recipes import index, lock, validate; e = index.entry('trl/sft');"
        "lock.check_lock(lock.make_lock(e), e, 'x'); validate.check_config(e, {'max_steps': 1}, {}, {'seed': '1'});"
        "print(sorted({'yaml', 'pydantic', 'httpx2', 'typer', 'rich', 'difflib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
