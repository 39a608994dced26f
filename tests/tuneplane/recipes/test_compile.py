"""Manifests to index: what is refused, what the digests say, what --check sees."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tuneplane.recipes.conftest import ToyCatalog
from tuneplane.contract.digests import canonical_json
from tuneplane.contract.recipe import CatalogEntry
from tuneplane.recipes import compile as compiler
from tuneplane.recipes import index


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_the_digests_are_those_of_the_published_rule(toy: ToyCatalog) -> None:
    """Computed here with hashlib and RFC 8785 alone, as docs/reference/digests tells a stranger to."""
    entry = toy.compile()
    template = {name: sha(text.encode()) for name, text in toy.files.items()}
    assert entry["manifest_digest"] == sha(canonical_json(entry["manifest"]))
    assert entry["template_digest"] == sha(canonical_json(template))
    both = {"manifest": entry["manifest_digest"], "template": entry["template_digest"]}
    assert entry["digest"] == sha(canonical_json(both))


def test_layout_and_comments_of_a_manifest_do_not_count_but_every_value_does(toy: ToyCatalog) -> None:
    first = toy.compile()
    source = toy.recipe / "recipe.yaml"
    source.write_text("# a comment\n" + source.read_text(encoding="utf-8"), encoding="utf-8")
    assert compiler.build_index(toy.root)["methods"]["toy/sft"]["digest"] == first["digest"]
    toy.manifest["params"]["rate"]["doc"] = "Rate!"
    assert toy.compile()["manifest_digest"] != first["manifest_digest"]


def test_every_byte_and_name_of_the_template_counts(toy: ToyCatalog) -> None:
    digests = {toy.compile()["template_digest"]}
    toy.files["train.py"] = "print('y')\n"
    digests.add(toy.compile()["template_digest"])
    toy.files["data/more.txt"] = ""
    (toy.recipe / "template/data").mkdir()
    digests.add(toy.compile()["template_digest"])
    (toy.recipe / "template/data/more.txt").rename(toy.recipe / "template/data/less.txt")
    digests.add(compiler.build_index(toy.root)["methods"]["toy/sft"]["template_digest"])
    assert len(digests) == 4


def test_what_python_leaves_beside_a_script_does_not_count(toy: ToyCatalog) -> None:
    before = toy.compile()["template_digest"]
    cache = toy.recipe / "template/__pycache__"
    cache.mkdir()
    (cache / "train.cpython-314.pyc").write_bytes(b"\0")
    assert toy.compile()["template_digest"] == before


def test_a_schema_change_changes_the_catalog_digest(toy: ToyCatalog) -> None:
    toy.compile()
    before = index.catalog_digest(toy.root)
    toy.keys["depth"]["min"] = 0
    toy.compile()
    assert index.catalog_digest(toy.root) != before


def test_an_entry_is_what_the_contract_says_and_keeps_the_order_of_the_parameters(toy: ToyCatalog) -> None:
    entry = toy.compile()
    assert CatalogEntry.model_validate(entry).to_json() == entry
    assert list(entry["manifest"]["params"]) == sorted(toy.manifest["params"])  # as the YAML file has them


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda m: m.update(name="toy/dpo"), "does not match the directory"),
        (lambda m: m.update(framework="trl"), "does not match the name"),
        (lambda m: m["runtime"].update(default_version="3"), "default version 3 is not in the runtime matrix"),
        (lambda m: m["runtime"]["versions"]["1"].update(requires=["toy>=1"]), "toy>=1 is not an exact pin"),
        (lambda m: m["runtime"]["versions"].update({"9": {"runtime_id": "toy-9"}}), "no schema of toy 9"),
        (lambda m: m.pop("i18n"), "there is no zh-Hans text"),
        (lambda m: m["i18n"]["zh-Hans"]["params"].pop("rate"), "rate is documented in one language only"),
        (lambda m: m["metrics"]["aliases"].update(x="loss"), "does not start with train/"),
        (lambda m: m["metrics"]["aliases"].update({"y/*": "train/y"}), "a * stands at the end of both names"),
        (lambda m: m["metrics"].update(primary="train/reward"), "no alias leads to train/reward"),
        (lambda m: m["params"]["rate"].update(path="rte"), "toy 1 has no key rte"),
        (lambda m: m["params"]["rate"].update(path="out"), "sets a key that the platform owns"),
        (lambda m: m["params"]["rate"].update(type="int"), "type is 'int', the framework says 'float'"),
        (lambda m: m["params"]["rate"].update(default=0.2), "default is 0.2, the framework says 0.1"),
        (lambda m: m["params"]["rate"].update(min=0.0), "min is 0.0, the framework says None"),
        (lambda m: m["params"]["mode"].update(choices=["fast"]), "choices is ['fast'], the framework says"),
        (lambda m: m["adapter_options"].update(fixed={"depth": 2}), "fixed key depth is not owned"),
        (lambda m: m["entrypoint"].update(value="run.py"), "the template has no run.py"),
        (lambda m: m.update(colour="red"), "Extra inputs are not permitted"),
        (lambda m: m.update(template="elsewhere"), "no such directory"),
    ],
)
def test_an_unsound_manifest_is_named_with_its_fault(toy: ToyCatalog, change: Any, problem: str) -> None:
    change(toy.manifest)
    toy.write()
    with pytest.raises(compiler.CatalogError) as caught:
        compiler.build_index(toy.root)
    assert problem in str(caught.value)
    assert "toy/sft/recipe.yaml" in str(caught.value)


def test_what_the_methods_of_a_framework_share_is_written_once(toy: ToyCatalog) -> None:
    plain = toy.compile()
    shared = {
        "framework": "toy",
        "runtime": toy.manifest.pop("runtime"),
        "metrics": {"aliases": {"loss": "train/raw_loss", "gone": "train/gone"}},
        "i18n": {"zh-Hans": {"params": toy.manifest["i18n"]["zh-Hans"].pop("params")}},
    }
    toy.manifest["metrics"]["aliases"]["gone"] = None  # not of this method
    del toy.manifest["framework"]
    toy.root.joinpath("toy/common.yaml").write_text(yaml.safe_dump(shared, allow_unicode=True), encoding="utf-8")
    entry = toy.compile()
    assert entry["digest"] == plain["digest"]
    assert index.verify("toy/sft", toy.root) == []
    with toy.root.joinpath("toy/common.yaml").open("a") as file:
        file.write("# changed\n")
    (change,) = index.verify("toy/sft", toy.root)
    assert "common.yaml" in change.message


def test_type_bounds_and_default_of_a_parameter_may_be_left_to_the_schema(toy: ToyCatalog) -> None:
    plain = toy.compile()
    for param in toy.manifest["params"].values():
        for fact in ("type", "choices", "exclusive_min", "default"):
            param.pop(fact, None)
    assert toy.compile()["digest"] == plain["digest"]


def test_all_faults_are_named_at_once(toy: ToyCatalog) -> None:
    toy.manifest["i18n"]["zh-Hans"]["params"].pop("rate")
    toy.manifest["runtime"]["default_version"] = "3"
    toy.write()
    with pytest.raises(compiler.CatalogError) as caught:
        compiler.build_index(toy.root)
    assert len(str(caught.value).splitlines()) == 2


def test_a_symbolic_link_in_a_template_is_refused(toy: ToyCatalog) -> None:
    toy.write()
    (toy.recipe / "template/secret").symlink_to("/etc/hostname")
    with pytest.raises(compiler.CatalogError, match="is a symbolic link"):
        compiler.build_index(toy.root)


def test_check_fails_when_something_is_stale_and_writes_nothing(
    toy: ToyCatalog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    toy.compile()
    checkout = tmp_path / "checkout"
    monkeypatch.setattr(compiler, "CATALOG", toy.root)
    monkeypatch.setattr(compiler, "find_checkout", lambda: checkout)
    assert compiler.main([]) == 0
    assert compiler.main(["--check"]) == 0
    before = (toy.root / "index.json").read_bytes()
    (toy.recipe / "template/train.py").write_text("print('z')\n")
    assert compiler.main(["--check"]) == 1
    assert "index.json; run make catalog" in capsys.readouterr().err
    assert (toy.root / "index.json").read_bytes() == before
    assert compiler.main([]) == 0
    assert compiler.main(["--check"]) == 0
    reference = checkout / "docs/zh-Hans/reference"
    assert "[toy/sft](parameters/toy.md#toysft-玩具): 玩具" in (reference / "parameters.md").read_text()
    assert "| `rate` | float | `0.1` | > 0 | 速率。 |" in (reference / "parameters/toy.md").read_text()


def test_compiling_a_broken_catalog_says_what_is_wrong(
    toy: ToyCatalog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.write()
    (toy.recipe / "recipe.yaml").write_text("name: [", encoding="utf-8")
    monkeypatch.setattr(compiler, "CATALOG", toy.root)
    monkeypatch.setattr(compiler, "find_checkout", lambda: None)
    assert compiler.main([]) == 1
    assert "recipe.yaml" in capsys.readouterr().err
    assert not (toy.root / "index.json").exists()


def test_the_same_manifests_give_the_same_bytes(toy: ToyCatalog) -> None:
    toy.write()
    texts = {compiler.render_index(compiler.build_index(toy.root)) for _ in range(3)}
    assert len(texts) == 1
    assert json.loads(texts.pop())["apiVersion"] == "tuneplane/catalog/v1"
