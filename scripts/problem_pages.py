#!/usr/bin/env python3
"""Write docs/<language>/reference/problems.md from the table of problems: problem_pages.py [--check].

Chinese comes from the message catalog, so the pages are written anew after an entry or its translation changed. `--check`
writes nothing and fails when a page is not current. Run it with the development environment: .venv/bin/python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from reason_pages import ROOT, translations, write

from tuneplane_server.web.problem_table import GROUPS, PAGE

WORDS = {
    "en": {
        "title": "Problems",
        "intro": f"""\
The codes of refusals and errors: `code` of a problem of the [API](api.md#errors) and of each of its `refusals`, and what the commands of `tp` print with `--json`. A code never changes. What is wrong in the case at hand stands beside it, in `detail` and `hint`.

The `type` of a problem leads to the same table on the console, `{PAGE}`. Why a run ended is another matter: [Reasons](reasons.md).

This page is made from the table by `make problems`.""",
        "entry": "{meaning}. {advice}.",
    },
    "zh-Hans": {
        "title": "问题代码",
        "intro": f"""\
拒绝和错误的代码：[API](api.md#错误) 返回的问题的 `code`、其中每条 `refusals` 的 `code`，以及 `tp` 的命令加 `--json` 时打印的代码。代码永不改变。具体哪里不对，写在旁边的 `detail` 和 `hint` 里。

问题的 `type` 指向控制台上的同一张表：`{PAGE}`。作业为什么结束是另一回事，见[原因](reasons.md)。

本页由 `make problems` 根据问题表生成。""",
        "entry": "{meaning}。{advice}。",
    },
}


def page(language: str) -> Path:
    return ROOT / "docs" / language / "reference" / "problems.md"


def render(language: str, translate: Callable[[str], str]) -> str:
    words = WORDS[language]
    parts = [f"# {words['title']}", words["intro"]]
    for group in GROUPS:
        parts.append(f"## {translate(group.title)}")
        for entry in group.entries:
            meaning, advice = _sentence(translate(entry.meaning)), _sentence(translate(entry.advice))
            parts += [f"### {entry.code}", words["entry"].format(meaning=meaning, advice=advice)]
    return "\n\n".join(parts) + "\n"


def _sentence(phrase: str) -> str:
    return phrase if phrase.startswith(("tp ", "recipe", "tuneplane.yaml")) else phrase[0].upper() + phrase[1:]


def pages() -> dict[Path, str]:
    """Each page with the text it should have."""
    chinese = translations()
    return {
        page("en"): render("en", str),
        page("zh-Hans"): render("zh-Hans", lambda phrase: chinese.get(phrase, phrase)),
    }


def main(arguments: list[str]) -> int:
    return write(pages(), arguments, script="problem_pages.py", how="make problems")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
