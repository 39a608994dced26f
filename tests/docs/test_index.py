"""The manual has a table of contents in each language, and one for programs that read it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import LANGUAGES, manual
from tests.services.session import ROOT

_LINK = re.compile(r"^- \[(.+?)\]\(([^)]+)\): \S", re.MULTILINE)


def _listed_pages(language: str) -> list[Path]:
    """The pages that the tables of contents name. Those below another page (`reference/parameters/trl.md`) are that page's to name."""
    pages = manual(language)
    return [page for page in pages if page.parent.with_suffix(".md") not in pages]


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_index_of_a_language_has_every_page_under_its_title(language: str) -> None:
    index = ROOT / "docs" / language / "README.md"
    listed = {(index.parent / target): title for title, target in _LINK.findall(index.read_text(encoding="utf-8"))}
    assert listed == {page: _title(page) for page in _listed_pages(language) if page != index}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_page_with_pages_below_it_links_each(language: str) -> None:
    below = [page for page in manual(language) if page not in _listed_pages(language)]
    assert below
    for page in below:
        above = page.parent.with_suffix(".md").read_text(encoding="utf-8")
        assert f"({page.parent.name}/{page.name}" in above, page


def test_llms_txt_has_every_page_of_both_languages_under_its_title() -> None:
    index = ROOT / "docs" / "llms.txt"
    text = index.read_text(encoding="utf-8")
    listed = {(index.parent / target): title for title, target in _LINK.findall(text)}
    for language in LANGUAGES:
        for page in _listed_pages(language):
            if page.name != "README.md":
                assert listed[page] == _title(page)
    assert all(path.is_file() for path in listed)
    assert re.match(r"# \S.*\n\n> \S", text)


def test_both_indexes_have_the_same_order() -> None:
    targets = [
        [
            target
            for _title, target in _LINK.findall((ROOT / "docs" / language / "README.md").read_text(encoding="utf-8"))
        ]
        for language in LANGUAGES
    ]
    assert targets[0] == targets[1]
