"""Every sentence for people has a Chinese one that says the same with the same values."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po

from tests.repo.tree import PACKAGES, relative

KEYWORDS = {"_": None, "gettext": None, "N_": None, "ngettext": (1, 2)}
METHODS = [("**/template/**", "ignore"), ("**.py", "python"), ("**.html", "jinja2"), ("**.txt.j2", "jinja2")]
OPTIONS = {"**.html": {"encoding": "utf-8"}}
PLACEHOLDER = re.compile(r"\{[^{}]*\}|%\([a-z_]+\)[sd]|%[sd]")


@cache
def wanted(package: str) -> dict[tuple[str, ...], str]:
    """message ids (one, or singular and plural) -> the first place that uses them."""
    base = PACKAGES[package]
    found: dict[tuple[str, ...], str] = {}
    for name, line, message, _comments, _context in extract_from_dir(
        base, method_map=METHODS, options_map=OPTIONS, keywords=KEYWORDS
    ):
        ids = (message,) if isinstance(message, str) else tuple(message)
        found.setdefault(ids, f"{relative(base / name)}:{line}")
    return found


def catalogs(package: str) -> list[Path]:
    return sorted(PACKAGES[package].rglob("zh_Hans/LC_MESSAGES/*.po"))


def load(path: Path) -> Catalog:
    with path.open("rb") as source:
        return read_po(source, locale="zh_Hans", abort_invalid=True)


def messages(package: str) -> dict[tuple[str, ...], Message]:
    found = {}
    for path in catalogs(package):
        for message in load(path):
            if message.id:
                ids = (message.id,) if isinstance(message.id, str) else tuple(message.id)
                found[ids] = message
    return found


def texts(message: Message) -> tuple[str, ...]:
    return (message.string,) if isinstance(message.string, str) else tuple(message.string or ())


@pytest.mark.parametrize("package", PACKAGES)
def test_every_message_is_translated(package: str) -> None:
    have = messages(package)
    missing = {
        place: ids[0]
        for ids, place in wanted(package).items()
        if ids not in have or not all(texts(have[ids])) or have[ids].fuzzy
    }
    assert missing == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_translation_is_left_of_a_message_that_is_gone(package: str) -> None:
    assert sorted(ids[0] for ids in messages(package).keys() - wanted(package).keys()) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_translations_use_the_same_values(package: str) -> None:
    wrong = {}
    for ids, message in messages(package).items():
        expected = set(PLACEHOLDER.findall(ids[-1]))
        for text in texts(message):
            if text and set(PLACEHOLDER.findall(text)) != expected:
                wrong[ids[0]] = text
    assert wrong == {}


def test_a_missing_value_would_be_seen() -> None:
    assert set(PLACEHOLDER.findall("{n} of %(total)s")) == {"{n}", "%(total)s"}
