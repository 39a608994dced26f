#!/usr/bin/env python3
"""Write docs/<language>/reference/reasons.md from the table of reasons: reason_pages.py [--check].

Chinese comes from the message catalog, so the pages are written anew after a reason or its translation changed. `--check`
writes nothing and fails when a page is not current. Run it with the development environment: .venv/bin/python.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from babel.messages.pofile import read_po

from tuneplane_server.domain.reasons import REASONS, ReasonClass, ReasonEntry

ROOT = Path(__file__).resolve().parent.parent
CATALOG = ROOT / (
    "packages/tuneplane-server/src/tuneplane_server/console/translations/zh_Hans/LC_MESSAGES/tuneplane_server.po"
)
CLASSES: tuple[ReasonClass, ...] = ("user", "infra", "platform", "policy")
WORDS = {
    "en": {
        "title": "Reasons",
        "intro": """\
Why an attempt ended as it did. A reason has a code that never changes, a class, a sentence and a hint; the API gives all of them (`reason` of a run and of each attempt), the console and `tp job show` show them. It is written once, from the first cause that is known.

What decides, in this order: the runner's own word, what the machine knows (a memory limit that was hit, an image that cannot be pulled), what the last lines of the log say, the signal or exit code. The line of the log that decided is quoted. When one rank fails and the others then wait for it in vain, the cause counts, not the waiting.

A further attempt is made only when the reason allows it (**retry** below) and `limits.retries` of the run has something left for its class (`tp submit --retries infra=2`). It begins after the one before is proved gone, from the newest complete checkpoint of the earlier attempts, after a rest that doubles each time (5 seconds to 15 minutes; none where a policy ended it). There is a ceiling: 25 attempts, and none after 3 ends in a row for the same reason (5 of class infra) at the same step without a newer checkpoint. More in [Pause, resume, retry](../guides/pause-resume-retry.md).

This page is made from the table by `scripts/reason_pages.py`.""",
        "user": "User: the experiment itself",
        "infra": "Infra: machines, network, stores",
        "platform": "Platform: TunePlane itself",
        "policy": "Policy: limits that somebody set",
        "yes": "{text}. Retry: yes.",
        "no": "{text}. Retry: no.",
        "hint": "{hint}.",
        "seen": "In the log, for example:",
    },
    "zh-Hans": {
        "title": "原因",
        "intro": """\
一次尝试为什么这样结束。每个原因有一个永不改变的代码、一个类别、一句话和一条提示；API 全部给出（作业和每次尝试的 `reason`），控制台和 `tp job show` 会显示。原因只写一次，取已知的第一个起因。

依次由这些决定：runner 自己的话，机器知道的事（撞上内存上限、镜像拉不下来），日志最后几行说了什么，信号或退出码。起决定作用的那行日志会被引用。一个 rank 失败、其他 rank 白等一场时，算数的是起因，不是等待。

只有原因允许（下面的**可重试**），并且作业的 `limits.retries` 在该类别上还有余量时（`tp submit --retries infra=2`），才会再次尝试。新的尝试在确认上一次已清理干净之后开始，从之前各次尝试中最新的完整 checkpoint 继续；之前有一段逐次加倍的间歇（5 秒到 15 分钟，由策略结束的没有间歇）。次数有上限：最多 25 次，并且连续 3 次（infra 类为 5 次）因同一原因停在同一步、没有更新的 checkpoint 之后不再尝试。详见[暂停、恢复、重试](../guides/pause-resume-retry.md)。

本页由 `scripts/reason_pages.py` 根据原因表生成。""",
        "user": "user：实验本身的问题",
        "infra": "infra：机器、网络、存储",
        "platform": "platform：TunePlane 自身",
        "policy": "policy：有人设定的限制",
        "yes": "{text}。可重试：是。",
        "no": "{text}。可重试：否。",
        "hint": "{hint}。",
        "seen": "日志里的样子，例如：",
    },
}


def page(language: str) -> Path:
    return ROOT / "docs" / language / "reference" / "reasons.md"


def render(language: str, translate: Callable[[str], str]) -> str:
    words = WORDS[language]
    parts = [f"# {words['title']}", words["intro"]]
    for class_ in CLASSES:
        parts.append(f"## {words[class_]}")
        parts += [_entry(entry, words, translate) for entry in REASONS.values() if entry.class_ == class_]
    return "\n\n".join(parts) + "\n"


def _entry(entry: ReasonEntry, words: dict[str, str], translate: Callable[[str], str]) -> str:
    parts = [
        f"### {entry.code}",
        words["yes" if entry.retry else "no"].format(text=_prose(translate(entry.text))),
        words["hint"].format(hint=_prose(translate(entry.hint))),
    ]
    if entry.seen:
        parts += [words["seen"], f"```text\n{entry.seen}\n```"]
    return "\n\n".join(parts)


def _prose(sentence: str) -> str:
    """As a sentence of Markdown: placeholders as code, nothing taken for HTML."""
    whole = sentence[0].upper() + sentence[1:]
    return re.sub(r"\{\w+\}", r"`\g<0>`", whole.replace("<", r"\<"))


def translations() -> dict[str, str]:
    """English to Chinese, only what is translated."""
    with CATALOG.open("rb") as source:
        messages = read_po(source, locale="zh_Hans")
    return {
        message.id: message.string
        for message in messages
        if isinstance(message.id, str) and isinstance(message.string, str) and message.string
    }


def pages() -> dict[Path, str]:
    """Each page with the text it should have."""
    chinese = translations()
    return {
        page("en"): render("en", str),
        page("zh-Hans"): render("zh-Hans", lambda sentence: chinese.get(sentence, sentence)),
    }


def main(arguments: list[str]) -> int:
    return write(pages(), arguments, script="reason_pages.py", how="scripts/reason_pages.py")


def write(wanted: dict[Path, str], arguments: list[str], *, script: str, how: str) -> int:
    """Write the pages that are not current, or with `--check` only name them. Returns the exit code."""
    if arguments not in ([], ["--check"]):
        print(f"usage: {script} [--check]", file=sys.stderr)
        return 2
    stale = {
        path: text for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    if arguments and stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        print(f"{script}: not current: {names}; run {how}", file=sys.stderr)
        return 1
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8")
        print(f"{script}: wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
