"""What every committed file must be: plain, small, free of addresses and paths that belong to one machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.repo.tree import committed_files, relative
from tests.services.session import ROOT

BINARY = {".png", ".ico", ".woff2", ".gz", ".zip", ".whl"}
LARGEST = 1_000_000  # bytes
LONGEST_MODULE = 400  # lines; a longer one usually hides a second subject

# Assembled from parts so that this file does not break its own rules.
REGISTRIES = re.compile(
    "|".join(
        (
            r"https?://[^\s'\"]+/" + r"simple\b",
            r"https?://[^\s'\"]+\." + r"(whl|tgz|deb)\b",
            r"\b(files\.)?pytho" + r"nhosted\.org",
            r"//(test\.)?pypi" + r"\.org",
            r"registry\.npm" + r"js\.org",
            r"deb\.deb" + r"ian\.org",
            r"--(extra-)?index-" + r"url[ =]\S+://",
        )
    )
)
MACHINE_PATHS = re.compile(
    "|".join((r"(?<![\w.~}/-])/wo" + r"rk/", r"/ro" + r"ot/\.", r"/opt/" + r"(wheels|pypi)", r"/tmp/" + r"bash_"))
)
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK|NotImpl" + r"ementedError)\b")


def text_files() -> list[Path]:
    return [path for path in committed_files() if path.suffix not in BINARY]


def places(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    return [
        f"{relative(path)}:{number}: {match.group()}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := pattern.search(line))
    ]


def test_no_file_names_a_package_registry() -> None:
    assert places(REGISTRIES, text_files()) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert places(MACHINE_PATHS, text_files()) == []


def test_nothing_is_left_unfinished() -> None:
    own = [
        path for path in text_files() if "vendor" not in path.parts and path.suffix in (".py", ".html", ".js", ".sh")
    ]
    assert places(UNFINISHED, own) == []


def test_the_patterns_find_what_they_are_for() -> None:
    assert REGISTRIES.search("https://mirror.example/" + "simple")
    assert REGISTRIES.search("https://example.org/torch-2" + ".whl")
    assert MACHINE_PATHS.search("cd /wo" + "rk/main")
    assert not MACHINE_PATHS.search("lab/wo" + "rk/main and <wo" + "rk>/lab")
    assert UNFINISHED.search("# TO" + "DO later")


def test_text_is_utf8_with_unix_lines_and_ends_with_a_newline() -> None:
    wrong = []
    for path in text_files():
        content = path.read_bytes()
        content.decode("utf-8")
        if b"\r" in content and "vendor" not in path.parts:
            wrong.append(f"{relative(path)}: carriage return")
        if content and not content.endswith(b"\n") and "vendor" not in path.parts:
            wrong.append(f"{relative(path)}: no newline at the end")
    assert wrong == []


def test_no_file_is_large() -> None:
    assert [relative(path) for path in committed_files() if path.stat().st_size > LARGEST] == []


def test_modules_have_one_subject() -> None:
    long = {
        relative(path): lines
        for path in committed_files()
        if path.suffix == ".py" and path.is_relative_to(ROOT / "packages")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_MODULE
    }
    assert long == {}


def test_what_starts_with_a_shebang_can_be_run_and_nothing_else_can() -> None:
    wrong = []
    for path in committed_files():
        runnable = bool(path.stat().st_mode & 0o100)
        if runnable != path.read_bytes()[:2].startswith(b"#!"):
            wrong.append(relative(path))
    assert wrong == []


@pytest.mark.parametrize("name", ["utils", "helpers", "manager", "common", "misc"])
def test_no_room_has_a_name_that_says_nothing(name: str) -> None:
    pattern = re.compile(rf"(^|_){name}(\.py)?$")
    rooms = {part for path in committed_files() for part in path.relative_to(ROOT).parts if path.suffix == ".py"}
    assert [room for room in rooms if pattern.search(room)] == []
