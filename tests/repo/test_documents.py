"""The papers that belong to the house are there, in both languages, and generated files are current."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repo.tree import PACKAGES, committed_files, relative
from tests.services.session import ROOT


@pytest.mark.parametrize("package", PACKAGES)
def test_each_distribution_has_notes(package: str) -> None:
    notes = PACKAGES[package].parents[1] / "NOTES.md"
    assert notes.is_file()
    assert len(notes.read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize(
    "name", ["README.md", "README.zh-Hans.md", "LICENSE", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", ".ci/run"]
)
def test_the_house_has_its_papers(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8").strip()


def test_the_changelog_has_an_unreleased_part_with_entries() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert unreleased is not None
    assert "\n- " in unreleased.group(1)


def test_every_page_of_the_manual_is_in_both_languages() -> None:
    pages = {language: manual_pages(language) for language in ("en", "zh-Hans")}
    assert pages["en"] == pages["zh-Hans"]


def manual_pages(language: str) -> set[str]:
    base = ROOT / "docs" / language
    return {path.relative_to(base).as_posix() for path in committed_files() if path.is_relative_to(base)}


def test_links_between_documents_lead_somewhere() -> None:
    broken = []
    for page in committed_files():
        if page.suffix != ".md" or "vendor" in page.parts:
            continue
        prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            path = target.partition("#")[0]
            if path and "://" not in target and not target.startswith("mailto:") and not (page.parent / path).exists():
                broken.append(f"{relative(page)}: {target}")
    assert broken == []


@pytest.mark.parametrize(
    ("module", "arguments", "command"),
    [
        ("tuneplane.contract.schemas", ["docs/reference/schemas", "--check"], "make schemas"),
        ("tuneplane.recipes.compile", ["--check"], "make catalog"),
    ],
)
def test_generated_files_are_current(module: str, arguments: list[str], command: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        check=False, capture_output=True, text=True, cwd=ROOT, timeout=60,
    )  # fmt: skip
    assert result.returncode == 0, f"run {command}: {result.stderr}"


def test_the_makefile_explains_every_target() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)[0].split())
    explained = set(re.findall(r"^([a-z0-9-]+):.*## \S", text, re.MULTILINE))
    assert targets == explained


def test_scripts_say_what_they_are_for() -> None:
    silent = []
    for path in committed_files():
        if path.parent == ROOT / "scripts" and path.name not in ("__init__.py",):
            head = "\n".join(path.read_text(encoding="utf-8").splitlines()[:4])
            if not re.search(r'^(# \S|"""\S|# Sourced)', head, re.MULTILINE):
                silent.append(path.name)
    assert silent == []


def test_the_repository_is_found() -> None:
    assert Path(ROOT, "pyproject.toml") in committed_files()
