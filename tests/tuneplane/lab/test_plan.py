"""What goes into a package and what stays: names, links, secrets by name, sizes; planned without reading a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tuneplane.lab.conftest import LabOnDisk, refusals
from tuneplane.contract.refusals import Refusal
from tuneplane.lab.plan import PackagePlan, plan_package, show_size

MB = 1024 * 1024


def plan(demo: LabOnDisk, limit: int | None = None) -> PackagePlan:
    return plan_package(demo.lab, demo.experiment, limit)


def refused(demo: LabOnDisk) -> list[Refusal]:
    return refusals(lambda: plan(demo))


def names(found: PackagePlan) -> list[str]:
    return [file.name for file in found.files]


def excluded(found: PackagePlan) -> dict[str, str]:
    return {item.name: item.reason for item in found.excluded}


def test_a_package_holds_the_marker_the_experiment_and_what_is_shared(demo: LabOnDisk) -> None:
    demo.write("experiments/first/train.py", "x")
    demo.write("experiments/other/train.py", "x")
    demo.write("common/a/b.py", "x")
    demo.write("configs/base.yaml", "x: 1")
    demo.write("datasets/rows.jsonl", "x")
    demo.write("notes.txt", "x")
    assert names(plan(demo)) == [
        "common/a/b.py",
        "configs/base.yaml",
        "experiments/first/config.yaml",
        "experiments/first/train.py",
        "tuneplane.yaml",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "common/.git/config",
        "common/__pycache__/a.pyc",
        "common/b.pyc",
        "experiments/first/.venv/bin/python",
        "experiments/first/venv/x",
        "experiments/first/node_modules/x",
        "experiments/first/.ipynb_checkpoints/x",
        "experiments/first/.cache/x",
        "experiments/first/.DS_Store",
    ],
)
def test_caches_and_environments_stay_out_and_are_listed(demo: LabOnDisk, name: str) -> None:
    demo.write(name, "x")
    found = plan(demo)
    assert name not in names(found)
    assert any(name.startswith(item.name.rstrip("/")) for item in found.excluded)


def test_an_environment_of_any_name_is_known_by_its_config(demo: LabOnDisk) -> None:
    demo.write("common/my-env/pyvenv.cfg", "")
    demo.write("common/my-env/lib/x.py", "")
    assert excluded(plan(demo)) == {"common/my-env/": "virtual environment"}


def test_gitignore_is_read_as_git_reads_it(demo: LabOnDisk) -> None:
    demo.write(".gitignore", "*.log\n!keep.log\n/common/tmp/\n# comment\n\n!\n")
    demo.write("common/.gitignore", "*.txt\n!a.txt\n")
    for name in (
        "common/a.log",
        "common/keep.log",
        "common/tmp/keep.log",
        "common/a.txt",
        "common/b.txt",
        "common/sub/b.txt",
    ):
        demo.write(name, "x")
    found = plan(demo)
    assert [name for name in names(found) if name.startswith("common/")] == [
        "common/.gitignore",
        "common/a.txt",
        "common/keep.log",
    ]
    assert set(excluded(found)) == {"common/a.log", "common/b.txt", "common/sub/b.txt", "common/tmp/"}


def test_the_gitignore_of_the_repository_around_the_lab_counts(demo: LabOnDisk) -> None:
    (demo.root.parent / ".git").mkdir()
    (demo.root.parent / ".gitignore").write_text("*.bin\n")
    demo.write("common/a.bin", "x")
    assert "common/a.bin" in excluded(plan(demo))


def test_a_lab_in_an_ignored_folder_of_a_repository_is_packed_whole(demo: LabOnDisk) -> None:
    """Such as a scratch lab below a project's own clone: the rule that hides it was not written for its files."""
    (demo.root.parent / ".git").mkdir()
    (demo.root.parent / ".gitignore").write_text(f"/{demo.root.name}/\n*.bin\n")
    demo.write("common/a.bin", "x")
    demo.write("experiments/first/helper.py", "x")
    assert {"common/a.bin", "experiments/first/helper.py"} <= set(names(plan(demo)))


def test_what_the_job_starts_with_is_packed_even_when_ignored(demo: LabOnDisk) -> None:
    demo.write(".gitignore", "*.py\n*.yaml\n*.json\nexperiments/\n")
    for name in ("train.py", "recipe.lock.json", "model.py"):
        demo.write(f"experiments/first/{name}", "x")
    assert names(plan(demo)) == [
        "experiments/first/config.yaml",
        "experiments/first/recipe.lock.json",
        "experiments/first/train.py",
        "tuneplane.yaml",
    ]


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".env.local",
        "id_rsa",
        "key.pem",
        "server.key",
        "credentials.json",
        ".netrc",
        "Secrets.YAML",
        "id_ed25519",
    ],
)
def test_secret_files_are_refused_by_name(demo: LabOnDisk, name: str) -> None:
    demo.write(f"common/{name}", "x")
    (found,) = refused(demo)
    assert found.code == "package-secret"
    assert found.file == str(demo.root / "common" / name)
    assert ".gitignore" in found.hint


def test_an_ignored_secret_file_is_left_out(demo: LabOnDisk) -> None:
    demo.write(".gitignore", ".env\n")
    demo.write("common/.env", "x")
    assert "common/.env" in excluded(plan(demo))


@pytest.mark.parametrize("name", [".env.example", "id_rsa.pub", "tokenizer.json", "secrets.py", "keys.txt"])
def test_harmless_names_are_packed(demo: LabOnDisk, name: str) -> None:
    demo.write(f"common/{name}", "x")
    assert f"common/{name}" in names(plan(demo))


def test_a_directory_of_credentials_is_refused(demo: LabOnDisk) -> None:
    demo.write("common/.ssh/known_hosts", "x")
    assert refused(demo)[0].code == "package-secret"


def test_links_out_of_the_lab_are_refused(demo: LabOnDisk) -> None:
    outside = demo.root.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("x")
    (demo.root / "common").mkdir()
    (demo.root / "common/dir").symlink_to(outside)
    (demo.root / "common/file").symlink_to("../../outside/file")
    found = refused(demo)
    assert {item.code for item in found} == {"package-link"}
    assert len(found) == 2


def test_a_link_to_a_secret_is_a_secret(demo: LabOnDisk) -> None:
    demo.write("id_rsa", "x")
    (demo.root / "common").mkdir()
    (demo.root / "common/harmless.txt").symlink_to("../id_rsa")
    assert refused(demo)[0].code == "package-secret"


def test_links_inside_the_lab_are_packed_as_what_they_point_to(demo: LabOnDisk) -> None:
    demo.write("shared/lib/a.py", "x")
    (demo.root / "experiments/first/lib").symlink_to("../../shared/lib")
    (demo.root / "experiments/first/b.py").symlink_to("../../shared/lib/a.py")
    assert [name for name in names(plan(demo)) if name.endswith(".py")] == [
        "experiments/first/b.py",
        "experiments/first/lib/a.py",
    ]


def test_dangling_links_and_data_sets_stay_out_with_a_note(demo: LabOnDisk) -> None:
    demo.write("datasets/rows/a.jsonl", "x")
    (demo.root / "experiments/first/gone").symlink_to("nowhere")
    (demo.root / "experiments/first/outside-gone").symlink_to("/nowhere/at/all")
    (demo.root / "experiments/first/loop").symlink_to("loop")
    (demo.root / "experiments/first/data").symlink_to("../../datasets/rows")
    found = excluded(plan(demo))
    assert set(found) == {
        "experiments/first/data/",
        "experiments/first/gone",
        "experiments/first/loop",
        "experiments/first/outside-gone",
    }
    assert found["experiments/first/data/"] == "datasets are never packed"


def test_a_link_to_a_directory_above_is_refused_and_does_not_hang(demo: LabOnDisk) -> None:
    (demo.root / "experiments/first/up").symlink_to("..")
    (demo.root / "experiments/first/self").symlink_to(".")
    assert {item.code for item in refused(demo)} == {"package-link"}


def test_a_fifo_is_left_out_without_waiting_for_it(demo: LabOnDisk) -> None:
    os.mkfifo(demo.root / "experiments/first/pipe")
    assert excluded(plan(demo)) == {"experiments/first/pipe": "neither a file nor a directory"}


class Opened:
    """Every path that is opened while it is on. An audit hook cannot be taken away again, so it is switched."""

    def __init__(self) -> None:
        self.on, self.paths = False, list[str]()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.on and event == "open":
            self.paths.append(str(arguments[0]))


OPENED = Opened()


def test_a_two_gigabyte_file_is_refused_before_a_byte_is_read(demo: LabOnDisk) -> None:
    demo.write(".gitignore", "*.log\n")
    large = demo.write("common/weights.bin", "")
    os.truncate(large, 2 * 1024 * MB)
    OPENED.on = True
    try:
        (found,) = refused(demo)
    finally:
        OPENED.on = False
    assert found.code == "package-too-large"
    assert "common/weights.bin (2.1 GB)" in found.hint
    assert str(demo.root / ".gitignore") in OPENED.paths
    assert str(large) not in OPENED.paths


def test_the_limit_can_be_set(demo: LabOnDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    os.truncate(demo.write("common/a.bin", ""), 3 * MB)
    assert plan(demo).size > 3 * MB
    monkeypatch.setenv("TUNEPLANE_MAX_PACKAGE_MB", "2")
    assert refused(demo)[0].code == "package-too-large"
    monkeypatch.setenv("TUNEPLANE_MAX_PACKAGE_MB", "two")
    assert refused(demo)[0].code == "limit-invalid"


def test_too_many_files_are_refused(demo: LabOnDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuneplane.lab.plan.MAX_FILES", 5)
    for number in range(10):
        demo.write(f"common/{number}", "x")
    assert refused(demo)[0].code == "package-too-large"


@pytest.mark.parametrize("make", [lambda d: os.fsencode(d) + b"/\xff.py", lambda d: os.fsencode(d) + b"/a\nb"])
def test_names_that_cannot_be_shown_are_refused(demo: LabOnDisk, make: Callable[[Path], bytes]) -> None:
    with open(make(demo.experiment.directory), "wb"):  # noqa: PTH123 - a name that is no text
        pass
    assert refused(demo)[0].code == "name-invalid"


def test_everything_wrong_is_told_at_once(demo: LabOnDisk) -> None:
    demo.write("common/.env", "x")
    (demo.root / "common/out").symlink_to("/etc")
    os.truncate(demo.write("common/huge", ""), 300 * MB)
    assert {item.code for item in refused(demo)} == {"package-secret", "package-link", "package-too-large"}


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_000_000, "2.0 MB"), (5 * 10**13, "50.0 TB")]
)
def test_sizes_are_shown_to_people(size: int, text: str) -> None:
    assert show_size(size) == text
