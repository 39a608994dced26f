"""`defaults` inherited: order, depth, replacement, circles, what is missing; and the position of every key afterwards."""

from __future__ import annotations

import pytest

from tests.tuneplane.lab.conftest import LabOnDisk, refusals
from tuneplane.contract.refusals import Refusal
from tuneplane.lab.config import ResolvedConfig, load_config


def load(demo: LabOnDisk, text: str) -> ResolvedConfig:
    demo.write("experiments/first/config.yaml", text)
    return load_config(demo.experiment.directory, demo.root)


def refused(demo: LabOnDisk, text: str) -> list[Refusal]:
    return refusals(lambda: load(demo, text))


def test_fragments_merge_left_to_right_and_own_keys_last(demo: LabOnDisk) -> None:
    demo.write("configs/a.yaml", "x: 1\ny: 1\nm: {a: 1, b: 1, deep: {k: 1, l: 1}}\nlist: [1, 2, 3]\n")
    demo.write("configs/b.yaml", "y: 2\nm: {b: 2, deep: {k: 2}}\nlist: [9]\n")
    found = load(demo, "defaults: [../../configs/a.yaml, configs/b.yaml]\nz: 3\nm: {c: 3}\n")
    assert found.values == {
        "x": 1, "y": 2, "z": 3, "list": [9],
        "m": {"a": 1, "b": 2, "c": 3, "deep": {"k": 2, "l": 1}},
    }  # fmt: skip
    assert [path.name for path in found.sources] == ["a.yaml", "b.yaml", "config.yaml"]


def test_every_key_knows_the_file_and_line_that_set_it_last(demo: LabOnDisk) -> None:
    a = demo.write("configs/a.yaml", "x: 1\nm:\n  a: 1\n  b: [1, 2]\n")
    found = load(demo, "defaults: configs/a.yaml\nm:\n  b: [7]\n")
    own = str(demo.experiment.config)
    assert found.positions["x"] == (str(a), 1)
    assert found.positions["m.a"] == (str(a), 3)
    assert found.positions["m.b"] == (own, 3)
    assert found.positions["m.b[0]"] == (own, 3)
    assert "m.b[1]" not in found.positions


def test_a_fragment_inherits_relative_to_itself(demo: LabOnDisk) -> None:
    demo.write("configs/sub/base.yaml", "a: base\n")
    demo.write("configs/sub/mid.yaml", "defaults: [base.yaml]\nb: mid\n")
    assert load(demo, "defaults: [configs/sub/mid.yaml]\n").values == {"a": "base", "b": "mid"}


def test_override_replaces_a_mapping_and_is_taken_out(demo: LabOnDisk) -> None:
    demo.write("configs/a.yaml", "m: {a: 1, b: 1}\nn: {a: 1}\n")
    found = load(demo, "defaults: [configs/a.yaml]\nm: {_override_: true, c: 3}\nn: {_override_: false, c: 3}\n")
    assert found.values == {"m": {"c": 3}, "n": {"a": 1, "c": 3}}
    assert "m.a" not in found.positions
    assert "m._override_" not in found.positions


def test_override_must_be_true_or_false(demo: LabOnDisk) -> None:
    (found,) = refused(demo, "a: 1\nm:\n  _override_: maybe\n")
    assert (found.code, found.line, found.field) == ("config-invalid", 3, "m._override_")


def test_a_circle_is_refused_with_its_way_round(demo: LabOnDisk) -> None:
    demo.write("configs/a.yaml", "defaults: [b.yaml]\n")
    demo.write("configs/b.yaml", "x: 1\ndefaults:\n  - a.yaml\n")
    (found,) = refused(demo, "defaults: [configs/a.yaml]\n")
    assert (found.code, found.line) == ("config-cycle", 3)
    assert found.file.endswith("configs/b.yaml")
    assert "configs/a.yaml → configs/b.yaml → configs/a.yaml" in found.message


def test_a_file_that_inherits_itself_is_a_circle(demo: LabOnDisk) -> None:
    (found,) = refused(demo, "defaults: [config.yaml]\n")
    assert found.code == "config-cycle"


def test_the_same_fragment_twice_is_no_circle(demo: LabOnDisk) -> None:
    demo.write("configs/base.yaml", "a: 1\n")
    demo.write("configs/l.yaml", "defaults: [base.yaml]\nl: 1\n")
    demo.write("configs/r.yaml", "defaults: [base.yaml]\nr: 1\n")
    assert load(demo, "defaults: [configs/l.yaml, configs/r.yaml]\n").values == {"a": 1, "l": 1, "r": 1}


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ("configs/none.yaml", "file-missing"),
        ("../../../outside.yaml", "config-invalid"),
        ("/etc/passwd", "config-invalid"),
        ("configs", "file-missing"),
        ('"a\\0b"', "config-invalid"),
    ],
)
def test_what_cannot_be_inherited_is_refused_where_it_is_named(demo: LabOnDisk, entry: str, code: str) -> None:
    demo.write("configs/a.yaml", "a: 1\n")
    (demo.root.parent / "outside.yaml").write_text("a: 1\n")
    (found,) = refused(demo, f"x: 1\ndefaults:\n  - configs/a.yaml\n  - {entry}\n")
    assert (found.code, found.line) == (code, 4)
    assert found.file == str(demo.experiment.config)


def test_a_link_out_of_the_lab_is_not_inherited(demo: LabOnDisk) -> None:
    (demo.root.parent / "outside.yaml").write_text("a: 1\n")
    (demo.root / "configs").mkdir()
    (demo.root / "configs/link.yaml").symlink_to(demo.root.parent / "outside.yaml")
    (found,) = refused(demo, "defaults: [configs/link.yaml]\n")
    assert "outside the lab" in found.message


@pytest.mark.parametrize("text", ["defaults: {a: 1}\n", "defaults: 7\n", "defaults: [1]\n", "defaults: ['']\n"])
def test_defaults_must_be_paths(demo: LabOnDisk, text: str) -> None:
    (found,) = refused(demo, text)
    assert (found.code, found.line) == ("config-invalid", 1)


def test_problems_of_several_files_are_told_together(demo: LabOnDisk) -> None:
    demo.write("configs/a.yaml", "a: .nan\n")
    demo.write("configs/b.yaml", "- list\n")
    found = refused(demo, "defaults: [configs/a.yaml, configs/b.yaml, configs/none.yaml]\n")
    assert [item.code for item in found] == ["number-not-finite", "config-invalid", "file-missing"]


def test_an_endless_tree_of_files_is_refused(demo: LabOnDisk) -> None:
    demo.write("configs/leaf.yaml", "a: 1\n")
    for level in range(8):
        below = "leaf" if level == 0 else f"l{level - 1}"
        demo.write(f"configs/l{level}.yaml", f"defaults: [{below}.yaml, {below}.yaml]\n")
    (found,) = refused(demo, "defaults: [configs/l7.yaml]\n")
    assert "files inherited" in found.message


def test_an_empty_config_is_an_empty_config(demo: LabOnDisk) -> None:
    assert load(demo, "").values == {}


def test_a_missing_config_is_refused(demo: LabOnDisk) -> None:
    demo.experiment.config.unlink()
    (found,) = refusals(lambda: load_config(demo.experiment.directory, demo.root))
    assert found.code == "file-missing"


def test_keys_with_dots_in_them_merge_as_they_are(demo: LabOnDisk) -> None:
    demo.write("configs/a.yaml", "a.b: {c: 1}\na: {b: {d: 1}}\n")
    found = load(demo, "defaults: [configs/a.yaml]\na.b: {e: 2}\n")
    assert found.values == {"a.b": {"c": 1, "e": 2}, "a": {"b": {"d": 1}}}
