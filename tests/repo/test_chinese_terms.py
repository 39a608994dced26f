"""One word for one thing in the Chinese pages and messages; docs/development/chinese.md says which."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.repo.test_translations import DOMAINS, texts, translated
from tests.services.session import ROOT

PAGE = ROOT / "docs/development/chinese.md"
# What may hold such a word for another thing.
OTHER_THINGS = re.compile(r"梯度检查点|dry run|[Rr]un id")
CODE = re.compile(r"```.*?```|`[^`\n]*`|<!--.*?-->|\]\([^)\s]*\)|https?://\S+", re.DOTALL)


@cache
def banned() -> dict[str, re.Pattern[str]]:
    """The last column: word -> what finds it. A Latin one only where it stands alone."""
    rows = [line.strip("|").split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    words = [word for row in rows for word in re.findall(r"`([^`]+)`", row[-1])]
    return {word: re.compile(rf"(?<![\w.{{/<-]){word}s?(?![\w./}}>-])" if word.isascii() else word) for word in words}


def sentences() -> Iterator[tuple[str, str]]:
    """(where, Chinese text without code)."""
    for domain in DOMAINS:
        for ids, message in translated(domain).items():
            yield from ((f"{domain}: {ids[0]}", text) for text in texts(message))
    for path in [*sorted((ROOT / "docs/zh-Hans").rglob("*.md")), ROOT / "README.zh-Hans.md"]:
        if path.name != "parameters.md":  # it quotes the recipes, whose digests hold their words
            yield str(path.relative_to(ROOT)), CODE.sub(" ", path.read_text(encoding="utf-8"))


def test_each_thing_has_its_one_word() -> None:
    wrong = [
        f"{where}: {word}"
        for where, text in sentences()
        for word, pattern in banned().items()
        if pattern.search(OTHER_THINGS.sub(" ", text))
    ]
    assert wrong == [], "docs/development/chinese.md has the word to use"


@pytest.mark.parametrize("text", ["保存检查点", "新建一个 run，", "用令牌登录", "两次 attempt 之间"])
def test_the_patterns_find_what_they_are_for(text: str) -> None:
    assert any(pattern.search(text) for pattern in banned().values())


@pytest.mark.parametrize("text", ["作业 {run} 已结束", "<run>/lab", "runner 和 runtime"])
def test_names_are_no_words(text: str) -> None:
    assert not any(pattern.search(text) for pattern in banned().values())
