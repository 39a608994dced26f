"""Recipes of organisations: the same checks and digests as ours, nothing replaced, compiled once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.recipes.organisations import SCRIPT, write_recipe
from tuneplane.contract.digests import digest_json, digest_tree, recipe_digest
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.recipes import compile as compiler
from tuneplane.recipes import index, lock
from tuneplane.recipes.new import write_experiment
from tuneplane.recipes.recipe_files import read_files
from tuneplane.recipes.template import read_template
from tuneplane.recipes.validate import check_config

BUILT_IN = index.methods()


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TUNEPLANE_HOME", str(tmp_path / "home"))
    index.use_recipe_path(None)
    yield tmp_path / "home"
    monkeypatch.delenv(index.RECIPE_PATH_VARIABLE, raising=False)
    index.use_recipe_path(None)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    return write_recipe(tmp_path / "house")


def publish(monkeypatch: pytest.MonkeyPatch, *directories: Path) -> None:
    monkeypatch.setenv(index.RECIPE_PATH_VARIABLE, ":".join(str(directory) for directory in directories))
    index.forget()


def refusals(monkeypatch: pytest.MonkeyPatch, *directories: Path) -> list[Refusal]:
    publish(monkeypatch, *directories)
    with pytest.raises(RefusedError) as caught:
        index.load_index()
    return caught.value.refusals


def test_it_joins_the_catalog_with_digests_of_the_published_rule(monkeypatch: pytest.MonkeyPatch, house: Path) -> None:
    before = index.catalog_digest()
    publish(monkeypatch, house)
    assert index.methods() == sorted([*BUILT_IN, "trl/acme-sft"])
    entry = index.entry("trl/acme-sft")
    template = digest_tree(read_template(house / "trl/acme-sft/template"))
    assert entry["digest"] == recipe_digest(digest_json(entry["manifest"]), template)
    assert index.catalog_digest() != before
    digests = {name: item["digest"] for name, item in index.load_index()["methods"].items()}
    assert index.catalog_digest() == digest_json({"methods": digests, "schemas": index.load_index()["schemas"]})
    assert index.organisation_of("trl/acme-sft") == house
    assert index.organisation_of("trl/sft") is None
    assert index.verify("trl/acme-sft") == []


def test_it_stands_on_what_is_built_in_for_its_framework(monkeypatch: pytest.MonkeyPatch, house: Path) -> None:
    publish(monkeypatch, house)
    entry = index.entry("trl/acme-sft")
    ours = index.entry("trl/sft")
    assert entry["manifest"]["adapter_options"] == ours["manifest"]["adapter_options"]
    assert entry["manifest"]["runtime"] == ours["manifest"]["runtime"]
    assert index.config_keys(entry) == index.config_keys(ours)
    found = check_config(entry, {"learning_rate": "x", "output_dir": "/x", "packin": True}, {}, {"rate": "-1"})
    assert {item.code for item in found} == {"param-type", "key-platform-owned", "param-unknown", "param-range"}


def test_an_experiment_of_it_is_made_and_its_lock_locks(
    monkeypatch: pytest.MonkeyPatch, house: Path, tmp_path: Path
) -> None:
    publish(monkeypatch, house)
    made = write_experiment(tmp_path, "first", index.entry("trl/acme-sft"))
    assert (made / "train.py").read_text() == "print('ours')\n"
    pinned = lock.read_lock(made / "recipe.lock.json")
    assert lock.check_lock(pinned, index.entry("trl/acme-sft"), "first") == []
    (house / "trl/acme-sft/template/train.py").write_text("print('theirs')\n")
    assert [item.code for item in index.verify("trl/acme-sft")] == ["catalog-mismatch"]
    index.forget()  # the next command reads it anew
    assert lock.lock_state(lock.check_lock(pinned, index.entry("trl/acme-sft"), "first")) == "stale"


def test_it_is_compiled_once_and_kept_by_the_digest_of_its_files(
    monkeypatch: pytest.MonkeyPatch, house: Path, own_home: Path
) -> None:
    publish(monkeypatch, house)
    first = json.dumps(index.load_index(), sort_keys=True)
    (kept,) = (own_home / "cache/recipes").glob("*.json")
    assert kept.stat().st_mode & 0o777 == 0o600

    def not_again(*_arguments: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(compiler, "build_index", not_again)
    index.forget()
    assert json.dumps(index.load_index(), sort_keys=True) == first
    (house / "trl/acme-sft/template/README.md").write_text("# Other\n")
    index.forget()
    with pytest.raises(AssertionError, match="compiled again"):
        index.load_index()


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff"])
def test_a_kept_catalog_that_is_none_is_made_again(
    monkeypatch: pytest.MonkeyPatch, house: Path, own_home: Path, content: bytes
) -> None:
    publish(monkeypatch, house)
    index.load_index()
    (kept,) = (own_home / "cache/recipes").glob("*.json")
    kept.write_bytes(content)
    index.forget()
    assert index.entry("trl/acme-sft")
    assert json.loads(kept.read_bytes())["methods"]


def test_a_home_that_cannot_be_written_only_costs_time(
    monkeypatch: pytest.MonkeyPatch, house: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TUNEPLANE_HOME", str(tmp_path / "file" / "home"))
    publish(monkeypatch, house)
    assert index.entry("trl/acme-sft")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "trl/other"}, "name trl/other does not match the directory"),
        ({"keys_of": "stf"}, "keys_of: trl 1.16 has no method stf"),
        ({"keys_of": None}, "the framework has no key dataset_num_proc"),
        ({"params": {"rate": {"path": "learnin_rate", "doc": "x", "group": "g"}}}, "learnin_rate"),
        ({"template": "../sft/template"}, "is not the name of a directory"),
        ({"nonsense": 1}, "nonsense: Extra inputs are not permitted"),
        ({"title": None}, "title: Field required"),
    ],
)
def test_what_is_not_sound_is_refused_with_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    house = tmp_path / "house"
    if changes.get("keys_of", "") is None:
        changes["params"] = {"procs": {"path": "dataset_num_proc", "doc": "x", "group": "g"}}
    written = {key: value for key, value in changes.items() if value is not None}
    write_recipe(house, **written)
    directory = house / written.get("name", "trl/acme-sft")
    if "name" in written:
        directory = directory.rename(house / "trl/acme-sft")
    for key in set(changes) - set(written):
        path = directory / "recipe.yaml"
        path.write_text("".join(line for line in path.open() if not line.startswith(f"{key}:")))
    found = refusals(monkeypatch, house)
    assert {item.code for item in found} == {"recipe-invalid"}
    assert any(said in item.message for item in found), [item.message for item in found]
    assert all(item.file.startswith(str(directory)) for item in found)


def test_every_fault_of_every_directory_is_told_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = write_recipe(write_recipe(tmp_path / "one", title=""), SCRIPT, nonsense=1)
    (one / "trl/acme-sft/template/train.py").unlink()
    two = tmp_path / "two"
    found = refusals(monkeypatch, one, two)
    assert [item.code for item in found] == ["recipe-invalid"]  # a path that is not there comes first
    two.mkdir()
    assert "no recipes" in refusals(monkeypatch, two)[0].message
    write_recipe(two, SCRIPT, entrypoint={"kind": "shell", "value": "x"})
    assert len(refusals(monkeypatch, one, two)) >= 3


def test_a_name_that_is_built_in_clashes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    house = write_recipe(tmp_path / "house", name="trl/sft")
    (found,) = refusals(monkeypatch, house)
    assert (found.code, found.file) == ("recipe-clash", str(house / "trl/sft/recipe.yaml"))


def test_a_schema_that_is_built_in_clashes(monkeypatch: pytest.MonkeyPatch, house: Path) -> None:
    schema = json.loads((index.CATALOG / "trl/schema-1.16.json").read_bytes())
    (house / "trl/schema-1.16.json").write_text(json.dumps(schema))
    assert [item.code for item in refusals(monkeypatch, house)] == ["recipe-clash"]


def test_two_directories_with_one_name_clash(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, house: Path) -> None:
    other = write_recipe(tmp_path / "other", version="4.0")
    (found,) = refusals(monkeypatch, house, other)
    assert found.code == "recipe-clash"
    assert str(house) in found.message


def test_a_framework_without_an_adapter_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    house = write_recipe(tmp_path / "house", SCRIPT, name="acme/train", framework="acme", files={"config.yaml": "", "README.md": "", "train.sh": ""})  # fmt: skip
    (found,) = refusals(monkeypatch, house)
    assert "no adapter for the framework acme" in found.message
    assert "trl" in found.message


def test_a_framework_version_of_its_own_brings_its_schema(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    schema = json.loads((index.CATALOG / "trl/schema-1.16.json").read_bytes())
    schema["version"] = "1.17"
    schema["common"]["house_key"] = {"type": ["int"], "default": 1}
    versions = {"1.17": {"runtime_id": "trl-1.17"}, "1.16": None}
    house = write_recipe(tmp_path / "house", runtime={"default_version": "1.17", "versions": versions})
    (house / "trl/schema-1.17.json").write_text(json.dumps(schema))
    publish(monkeypatch, house)
    entry = index.entry("trl/acme-sft")
    assert check_config(entry, {"house_key": 2}, {}) == []
    assert [item.code for item in check_config(index.entry("trl/sft"), {"house_key": 2}, {})] == ["param-unknown"]
    assert list(entry["manifest"]["runtime"]["versions"]) == ["1.17"]


@pytest.mark.parametrize("link", ["trl/acme-sft/template/link", "trl/common.yaml", "trl/acme-sft/template/deep"])
def test_a_link_out_of_the_directory_is_refused(
    monkeypatch: pytest.MonkeyPatch, house: Path, tmp_path: Path, link: str
) -> None:
    (tmp_path / "other").mkdir()
    (house / link).symlink_to("/etc/hostname" if not link.endswith("deep") else tmp_path / "other")
    (found,) = refusals(monkeypatch, house)
    assert "symbolic link" in found.message
    assert found.file == str(house / link)


def test_what_lies_beside_a_recipe_is_not_read(monkeypatch: pytest.MonkeyPatch, house: Path) -> None:
    publish(monkeypatch, house)
    before = index.catalog_digest()
    (house / ".git").mkdir()
    for name in (".env", "trl/acme-sft/.env", "trl/acme-sft/notes.md", ".git/config"):
        (house / name).write_text("KEY=1\n")
    (house / "trl/acme-sft/notes.txt").symlink_to("/etc/hostname")
    index.forget()
    assert index.catalog_digest() == before
    assert sorted(read_files(house)) == [
        "trl/acme-sft/recipe.yaml",
        "trl/acme-sft/template/README.md",
        "trl/acme-sft/template/config.yaml",
        "trl/acme-sft/template/train.py",
    ]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [(".env", "A=1\n", 0), ("train.py", "x = 1\nkey = '-----BEGIN " + "PRIVATE KEY-----'\n", 2), ("id_rsa", "x", 0)],
)
def test_a_secret_in_a_template_is_not_sent(house: Path, name: str, text: str, line: int) -> None:
    (house / "trl/acme-sft/template" / name).write_text(text)
    with pytest.raises(RefusedError) as caught:
        read_files(house)
    (found,) = caught.value.refusals
    assert (found.code, Path(found.file).name, found.line) == ("package-secret", name, line)


def test_a_template_of_another_name_is_refused(monkeypatch: pytest.MonkeyPatch, house: Path) -> None:
    (house / "trl/acme-sft/template").rename(house / "trl/acme-sft/files")
    write_recipe(house, files={"x": ""}, template="files")
    (found,) = refusals(monkeypatch, house)
    assert "must be called template" in found.message


def test_what_was_asked_for_in_the_process_goes_before_the_environment(
    monkeypatch: pytest.MonkeyPatch, house: Path, own_home: Path
) -> None:
    publish(monkeypatch, house)
    index.use_recipe_path(())
    assert index.methods() == BUILT_IN
    index.use_recipe_path((house,))
    assert "trl/acme-sft" in index.methods()
    assert not own_home.exists()  # a console keeps nothing in its user's home
