"""What is built from the tree holds what it needs to run: templates, pages, catalogs, compiled translations."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.repo.tree import PACKAGES, committed_files


@pytest.fixture(scope="module", params=PACKAGES)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    project = PACKAGES[request.param].parents[1]
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    result = subprocess.run(command, check=False, capture_output=True, text=True, cwd=project, timeout=100)
    assert result.returncode == 0, result.stderr
    return request.param, zipfile.ZipFile(next(folder.glob("*.whl")))


def test_a_wheel_holds_every_file_of_its_package(built: tuple[str, zipfile.ZipFile]) -> None:
    package, wheel = built
    base = PACKAGES[package].parent
    expected = {path.relative_to(base).as_posix() for path in committed_files() if path.is_relative_to(base)}
    assert expected - set(wheel.namelist()) == set()


def test_a_wheel_holds_compiled_translations(built: tuple[str, zipfile.ZipFile]) -> None:
    names = set(built[1].namelist())
    sources = {name for name in names if name.endswith(".po")}
    assert {str(Path(name).with_suffix(".mo")) for name in sources} <= names


def test_a_wheel_carries_the_licence(built: tuple[str, zipfile.ZipFile]) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in built[1].namelist())


def test_a_wheel_names_its_commands(built: tuple[str, zipfile.ZipFile]) -> None:
    package, wheel = built
    entry_points = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert package.replace("_", "-") in wheel.read(entry_points).decode()
