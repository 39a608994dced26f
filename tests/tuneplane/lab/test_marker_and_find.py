"""Where the lab is, and whose it is: the nearest marker, the environment, and what is wrong with a marker, with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tuneplane.lab.conftest import LabOnDisk, refusals
from tuneplane.lab.create import create_lab
from tuneplane.lab.find import enclosing_root, find_lab
from tuneplane.lab.marker import read_marker, write_marker


def test_the_nearest_ancestor_with_a_marker_is_the_lab(demo: LabOnDisk) -> None:
    deep = demo.root / "experiments/first/a/b"
    deep.mkdir(parents=True)
    assert find_lab(deep).root == demo.root
    demo.write("experiments/first/tuneplane.yaml", "apiVersion: tuneplane/project/v1\nname: inner\n")
    assert find_lab(deep).name == "inner"


def test_the_environment_names_the_lab(demo: LabOnDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNEPLANE_LAB", str(demo.root))
    assert find_lab(tmp_path).name == "demo"
    monkeypatch.setenv("TUNEPLANE_LAB", str(tmp_path))
    (found,) = refusals(lambda: find_lab(demo.root))
    assert found.code == "lab-not-found"
    assert "TUNEPLANE_LAB" in found.message


def test_outside_of_a_lab_the_way_to_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUNEPLANE_LAB", raising=False)
    (found,) = refusals(lambda: find_lab(tmp_path))
    assert found.code == "lab-not-found"
    assert "tp init" in found.hint


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "no keys"),
        ("- a\n", 1, "no keys"),
        ("apiVersion: tuneplane/project/v1\n", 1, "no name"),
        ("apiVersion: tuneplane/project/v1\nname:\n", 2, "no name"),
        ("apiVersion: tuneplane/project/v1\nname: ''\n", 2, "no name"),
        ("apiVersion: tuneplane/project/v1\nname: a b\n", 2, "a b"),
        ("apiVersion: tuneplane/project/v1\nname: 项目\n", 2, "项目"),
        ("apiVersion: tuneplane/project/v1\nname: ../x\n", 2, "../x"),
        (f"apiVersion: tuneplane/project/v1\nname: {'a' * 300}\n", 2, "aaa…"),
        ("apiVersion: tuneplane/project/v1\nname: 7\n", 2, "7"),
        ("name: demo\n", 1, "apiVersion"),
        ("name: demo\napiVersion: tuneplane/project/v9\n", 2, "v9"),
    ],
)
def test_a_broken_marker_is_refused_with_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    (tmp_path / "tuneplane.yaml").write_text(text)
    (found,) = refusals(lambda: read_marker(tmp_path))
    assert (found.code, found.line) == ("lab-invalid", line)
    assert found.file == str(tmp_path / "tuneplane.yaml")
    assert words in found.message
    assert found.hint


def test_a_marker_that_is_no_yaml_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "tuneplane.yaml").write_text("name: [\n")
    (found,) = refusals(lambda: read_marker(tmp_path))
    assert (found.code, found.line) == ("yaml-invalid", 2)


def test_keys_of_another_client_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "tuneplane.yaml").write_text(
        "apiVersion: tuneplane/project/v1\nname: demo\nteam: x\ncreated_by: other 2\n"
    )
    assert read_marker(tmp_path).created_by == "other 2"


@pytest.mark.parametrize("name", ["demo", "2024-01-01", "0x10", "yes", "null", "1e5"])
def test_a_name_that_looks_like_something_else_stays_a_name(tmp_path: Path, name: str) -> None:
    write_marker(tmp_path, name, "tuneplane 0")
    assert read_marker(tmp_path).name == name


def test_a_marker_is_never_overwritten(tmp_path: Path) -> None:
    write_marker(tmp_path, "one", "x")
    with pytest.raises(FileExistsError):
        write_marker(tmp_path, "two", "x")
    assert read_marker(tmp_path).name == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["tuneplane.yaml"]


def test_a_new_lab_keeps_what_was_there(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    lab = create_lab(tmp_path, "mine")
    assert (tmp_path / ".gitignore").read_text() == "mine\n"
    assert ".gitignore" not in lab.written
    assert find_lab(tmp_path).name == "mine"
    assert (tmp_path / "datasets").is_dir()


def test_a_lab_inside_a_lab_and_a_second_one_are_refused(demo: LabOnDisk) -> None:
    assert refusals(lambda: create_lab(demo.root))[0].code == "conflict"
    inner = demo.root / "inner"
    assert refusals(lambda: create_lab(inner))[0].code == "conflict"
    assert not inner.exists()


def test_another_lab_in_the_environment_does_not_stand_in_the_way(
    demo: LabOnDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNEPLANE_LAB", str(demo.root))
    assert create_lab(tmp_path / "new").name == "new"


@pytest.mark.parametrize("name", ["a b", "", "..", "项目", "x" * 64, ".hidden", "a/b", "a\nb"])
def test_a_project_needs_a_name_that_can_travel(tmp_path: Path, name: str) -> None:
    (found,) = refusals(lambda: create_lab(tmp_path / "new", name))
    assert found.code == "name-invalid"
    assert not (tmp_path / "new").exists()


def test_a_crash_before_the_marker_leaves_no_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tuneplane.lab.create.write_marker", crash)
    with pytest.raises(KeyboardInterrupt):
        create_lab(tmp_path / "new")
    assert enclosing_root(tmp_path / "new") is None
    monkeypatch.undo()
    assert create_lab(tmp_path / "new").name == "new"
