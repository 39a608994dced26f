"""`write_experiment`: a whole directory or none."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.recipes.conftest import ToyCatalog
from tuneplane.contract.refusals import RefusedError
from tuneplane.recipes import index, lock
from tuneplane.recipes.new import write_experiment
from tuneplane.recipes.template import read_template


@pytest.mark.parametrize("method", index.methods())
def test_an_experiment_holds_the_template_and_a_current_lock(tmp_path: Path, method: str) -> None:
    entry = index.entry(method)
    made = write_experiment(tmp_path, "first", entry)
    assert made == tmp_path / "experiments/first"
    files = read_template(made)
    current = lock.read_lock(made / "recipe.lock.json")
    assert lock.check_lock(current, entry, "first") == []
    del files["recipe.lock.json"]
    assert files == read_template(index.CATALOG / method / "template")
    assert [path.name for path in made.parent.iterdir()] == ["first"]


def test_the_script_of_a_custom_experiment_can_be_executed(tmp_path: Path) -> None:
    made = write_experiment(tmp_path, "first", index.entry("custom/custom"))
    assert os.access(made / "train.sh", os.X_OK)


def test_the_version_of_the_framework_can_be_chosen(tmp_path: Path, toy: ToyCatalog) -> None:
    entry = toy.compile()
    made = write_experiment(tmp_path, "first", entry, "1", catalog=toy.root)
    assert lock.read_lock(made / "recipe.lock.json")["framework"]["version"] == "1"


def test_a_changed_template_is_not_copied_under_the_old_digest(tmp_path: Path, toy: ToyCatalog) -> None:
    entry = toy.compile()
    (toy.recipe / "template/train.py").write_text("print('mine')\n")
    with pytest.raises(RefusedError) as caught:
        write_experiment(tmp_path, "first", entry, catalog=toy.root)
    assert caught.value.refusals[0].code == "catalog-mismatch"
    assert not (tmp_path / "experiments").exists()


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "训练", "a" * 64, "a b", "a\n"])
def test_a_bad_name_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(RefusedError) as caught:
        write_experiment(tmp_path, name, index.entry("custom/custom"))
    assert caught.value.refusals[0].code == "name-invalid"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["directory", "file", "dangling link"])
def test_what_exists_is_refused_and_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    taken = tmp_path / "experiments/first"
    taken.parent.mkdir()
    if kind == "directory":
        taken.mkdir()
    elif kind == "file":
        taken.write_text("mine")
    else:
        taken.symlink_to("nowhere")
    before = taken.lstat()
    with pytest.raises(RefusedError) as caught:
        write_experiment(tmp_path, "first", index.entry("custom/custom"))
    assert caught.value.refusals[0].code == "experiment-exists"
    assert taken.lstat().st_ino == before.st_ino
    assert [path.name for path in taken.parent.iterdir()] == ["first"]


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def fail_at_the_third(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail_at_the_third)
    with pytest.raises(RefusedError) as caught:
        write_experiment(tmp_path, "first", index.entry("trl/sft"))
    (refusal,) = caught.value.refusals
    assert refusal.code == "lab-invalid"
    assert os.strerror(errno.ENOSPC) in refusal.message
    assert list((tmp_path / "experiments").iterdir()) == []


def test_the_loser_of_a_race_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def taken_meanwhile(path: Path, target: Any) -> Path:
        Path(target).mkdir()
        (Path(target) / "theirs").touch()
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", taken_meanwhile)
    with pytest.raises(RefusedError):
        write_experiment(tmp_path, "first", index.entry("custom/custom"))
    assert [path.name for path in (tmp_path / "experiments").iterdir()] == ["first"]
    assert [path.name for path in (tmp_path / "experiments/first").iterdir()] == ["theirs"]
