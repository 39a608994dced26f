"""The commands in README and manual.

The convention: a fenced block marked `sh` is meant to be typed, from top to bottom of its page, in one shell. In README and the guides
`test_guides.py` does that. In it

- `RUN` stands for the run submitted last,
- `http://127.0.0.1:8642` for the console,
- a block under `<!-- shown, not run: WHY -->` is only looked at: its commands and make targets must exist.

Whatever any page names in backticks and begins with `tp`, `tuneplane-server`, `tuneplane-node` or `make` must exist too, with its options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.services.session import ROOT

LANGUAGES = ("en", "zh-Hans")
READMES = {"en": ROOT / "README.md", "zh-Hans": ROOT / "README.zh-Hans.md"}
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- shown, not run: [^\n]+ -->\n\Z")
_SPAN = re.compile(r"`([^`\n]+)`")
_COMMENT = re.compile(r"(?:^|\s+)#.*$")


@dataclass(frozen=True)
class Block:
    """One fenced block of shell commands; `line` is that of its fence, `commands` are without their comments."""

    page: Path
    line: int
    commands: tuple[str, ...]
    run: bool


def manual(language: str) -> list[Path]:
    """Every page of the manual in one language."""
    return sorted((ROOT / "docs" / language).rglob("*.md"))


def guides(language: str) -> list[Path]:
    """The pages whose commands are meant to be typed as they stand: README and the guides."""
    return [READMES[language], *sorted((ROOT / "docs" / language / "guides").glob("*.md"))]


def everything() -> list[Path]:
    """README, manual, and what people who change the code read."""
    return [
        *READMES.values(),
        ROOT / "CONTRIBUTING.md",
        *(page for language in LANGUAGES for page in manual(language)),
        *sorted((ROOT / "docs" / "development").rglob("*.md")),
    ]


def blocks(page: Path) -> Iterator[Block]:
    """The `sh` blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        if match[1] == "sh":
            commands = tuple(line for raw in match[2].splitlines() if (line := _COMMENT.sub("", raw).strip()))
            line = text.count("\n", 0, match.start()) + 1
            yield Block(page, line, commands, not _NOT_RUN.search(text, 0, match.start()))


def spans(page: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of everything in backticks outside of fenced blocks."""
    text = page.read_text(encoding="utf-8")
    prose = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    for match in _SPAN.finditer(prose):
        yield prose.count("\n", 0, match.start()) + 1, match[1].replace("\\|", "|")
