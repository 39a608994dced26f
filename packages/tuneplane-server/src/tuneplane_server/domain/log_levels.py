"""How grave a line of output is: what its writer called it, or that it belongs to a traceback.

Nothing tells the levels of a training job's output but the lines themselves: Python's logging, glog, JSON and logfmt lines,
`warnings`, compilers and tracebacks write them in a few known ways. An indented line belongs to the one before it; a line
that says nothing has no level, and counts as information when lines are chosen by level.
"""

from __future__ import annotations

import re
from typing import Literal

type Level = Literal["debug", "info", "warning", "error"]

LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error")
HEAD = 160  # characters of a line in which a level is looked for
_UNKNOWN, _IN_TRACEBACK = 0, 8  # states; 1 … 4 are the levels of the line before

_WORDS: dict[str, int] = {
    "trace": 1, "debug": 1, "info": 2, "notice": 2, "warn": 3, "warning": 3, "error": 4, "err": 4, "critical": 4,
    "fatal": 4, "panic": 4, "exception": 4, "d": 1, "i": 2, "w": 3, "e": 4, "f": 4,
}  # fmt: skip
# What torchrun and Ray put in front of the lines of their workers.
_PREFIX = re.compile(r"(?:\[[\w.]*rank\d+\]:\s?|\([\w.:() -]*\bpid=\d+[^)]*\)\s)")
_TRACEBACK = re.compile(r'Traceback \(most recent call last\)|\s*File "[^"]*", line \d+')
_CHAIN = re.compile(r"During handling of the above exception|The above exception was the direct cause")
_EXCEPTION = re.compile(
    r"(?:\w+\.)*\w*(?:Error|Exception|ExceptionGroup|KeyboardInterrupt|SystemExit|StopIteration)(?::\s|$)"
)
_NAMED = re.compile(
    r"(?:^|[\s\[(<|:-])(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)(?=[\s\])>|:,-]|$)"
    r"|^([IWEF])\d{4} \d\d:\d\d:\d\d"
    r'|"(?:level|levelname|severity)"\s*:\s*"(\w+)"'
    r"|\blevel=\"?(\w+)"
    r"|:\d+: \w*(Warning): "
    r"|(?i:(?:^|: )(?:fatal )?(error|fatal|warning)(?:\[\w+\])?: )"
    r"|^(?i:(?:segmentation )(f)ault)"
)
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
# Bytes without any of these hold no line that is a warning or worse.
_GRAVE = re.compile(
    rb'warn|err|crit|fatal|panic|exception|interrupt|exit|iteration|traceback|fault|file "|[wef]\d{4} \d\d:', re.I
)


class LevelReader:
    """Levels of the lines of one descriptor, in their order. `state`: what it must know to go on; 0 at a start."""

    def __init__(self, state: int = _UNKNOWN) -> None:
        self.state = state

    def of(self, text: str) -> Level | None:
        """The level of the next line; None when nothing tells it."""
        line = _ESCAPES.sub("", text) if "\x1b" in text else text
        prefix = _PREFIX.match(line)
        number = self._number(line[prefix.end() :] if prefix else line)
        return LEVELS[number - 1] if number else None

    def forget(self) -> None:
        """Lines were passed over that were not looked at."""
        self.state = _UNKNOWN

    def _number(self, line: str) -> int:
        if _TRACEBACK.match(line):
            self.state = _IN_TRACEBACK
            return 4
        indented = line[:1] in (" ", "\t")
        if self.state == _IN_TRACEBACK:
            goes_on = indented or not line or _CHAIN.match(line) is not None
            self.state = _IN_TRACEBACK if goes_on else 4
            return 4
        named = _named(line[:HEAD])
        if named:
            self.state = named
        elif not indented:
            self.state = _UNKNOWN
        return self.state


def at_least(level: Level | None, wanted: Level) -> bool:
    """Whether a line of `level` is asked for by who wants `wanted` and graver ones."""
    return LEVELS.index(level or "info") >= LEVELS.index(wanted)


def may_be_grave(data: bytes, start: int, end: int) -> bool:
    """Whether a line in these bytes may be a warning or an error."""
    return _GRAVE.search(data, start, end) is not None


def _named(head: str) -> int:
    if _EXCEPTION.match(head):
        return 4
    found = _NAMED.search(head)
    if found is None:
        return _UNKNOWN
    word = next(group for group in found.groups() if group)
    return _WORDS.get(word.lower(), _UNKNOWN)
