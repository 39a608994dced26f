"""Numbers, times, lists of nodes and of resources as Slurm writes them.

Newer versions wrap a number as `{"set": …, "infinite": …, "number": …}`; older ones give it plain, with null, -1 or one of the
markers of slurm.h (NO_VAL, INFINITE) for none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

# slurm.h: INFINITE, NO_VAL and their siblings for 32 and 64 bits. Those for 16 bits are no less ids and sizes: job 65534, 65535 MiB.
_MARKERS = frozenset(value for bits in (32, 64) for value in (2**bits - 1, 2**bits - 2, 2**bits - 3))
MAX_HOSTS = 65536  # slurm.h: MAX_SLURM_NODES
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_CARDS = re.compile(r"gres[/:]gpu(?::([^=,:()]+))?[=:]([0-9]+)([KMGT]?)(?:\(.*\))?")
_SCALES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def number(value: object) -> int | None:
    """The number, None for one that is not set or has no bound."""
    if isinstance(value, dict):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) > 2**64:
        return None
    whole = int(value)
    return None if whole in _MARKERS or whole < 0 else whole


def moment(value: object) -> datetime | None:
    """Unix seconds as a time; Slurm's 0 is none."""
    seconds = number(value)
    if not seconds:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def minutes(value: object) -> int | None:
    """A time limit: 0 and anything without a bound are none."""
    return number(value) or None


def cards(resources: object) -> int | None:
    """GPUs in a list of trackable resources: `cpu=4,gres/gpu=8,gres/gpu:h200=8` is 8, as `gres:gpu:h200:8` and `gpu:h200:8(IDX:0-7)`
    are. None when it speaks of no GPU at all.

    `gres/gpu` without a type is the sum of those with one, so that the larger of both counts.
    """
    if not isinstance(resources, str):
        return None
    plain, typed = None, None
    for kind, count in _entries(resources):
        if kind:
            typed = (typed or 0) + count
        else:
            plain = (plain or 0) + count
    return max((each for each in (plain, typed) if each is not None), default=None)


def cards_by_type(resources: object) -> dict[str, int]:
    """Type -> GPUs of a node's `gpu:h200:8(S:0-1),gpu:a100:2`; type `""` when none is named. Other resources are left out."""
    found: dict[str, int] = {}
    if isinstance(resources, str):
        for kind, count in _entries(resources):
            found[kind] = found.get(kind, 0) + count
    return {kind: count for kind, count in found.items() if count}


def hosts(expression: object) -> tuple[str, ...]:
    """Names in a node list: `gpu[01-03,7],login` is gpu01, gpu02, gpu03, gpu7, login; several brackets multiply. What is no list of
    at most 65,536 nodes gives none: better unknown than wrong."""
    if not isinstance(expression, str) or expression.strip() in ("", "(null)", "None assigned", "N/A"):
        return ()
    names: list[str] = []
    for part in _split(expression):
        grown = _expanded(part)
        if grown is None or len(names) + len(grown) > MAX_HOSTS:
            return ()
        names += grown
    return tuple(names)


def _entries(resources: str) -> Iterator[tuple[str, int]]:
    for entry in _split(resources):
        found = _CARDS.fullmatch(entry) or _CARDS.fullmatch(f"gres/{entry}")
        if found:
            yield found[1] or "", int(found[2]) * _SCALES[found[3]]
        elif re.fullmatch(r"(?:gres[/:])?gpu(?:\(.*\))?", entry):  # `gpu` alone is one
            yield "", 1
        elif named := re.fullmatch(r"(?:gres[/:])?gpu:([A-Za-z][^=,:()]*)(?:\(.*\))?", entry):
            yield named[1], 1


def _split(text: str) -> list[str]:
    """At commas outside of brackets and parentheses."""
    parts, depth, begun = [], 0, 0
    for at, letter in enumerate(text):
        if letter in "[(":
            depth += 1
        elif letter in "])":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[begun:at])
            begun = at + 1
    parts.append(text[begun:])
    return [part.strip() for part in parts if part.strip()]


def _expanded(part: str) -> list[str] | None:
    names = [""]
    for at, piece in enumerate(re.split(r"\[([^\[\]]*)\]", part)):
        choices = _numbers(piece) if at % 2 else [piece]
        if choices is None or len(names) * len(choices) > MAX_HOSTS:
            return None
        names = [name + choice for name in names for choice in choices]
    return None if any(letter in name for name in names[:1] for letter in "[]()") else names


def _numbers(ranges: str) -> list[str] | None:
    found: list[str] = []
    for each in ranges.split(","):
        match = _RANGE.fullmatch(each.strip())
        if match is None or len(match[1]) > 9 or len(match[2] or "") > 9:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if not 0 <= last - first < MAX_HOSTS or len(found) + last - first >= MAX_HOSTS:
            return None
        # As many digits as the first has: `[08-11]` begins with 08.
        found += [str(value).zfill(len(match[1])) for value in range(first, last + 1)]
    return found


def words(value: object) -> frozenset[str]:
    """States and flags, upper case: a list of newer versions, one word of older ones, `IDLE+DRAIN` of node lists."""
    given: Sequence[object] = value if isinstance(value, list) else [value]
    texts = [each for each in given if isinstance(each, str)]
    return frozenset(word for text in texts for word in re.split(r"[+,\s]+", text.upper()) if word)


def text(value: object) -> str:
    """A string, empty for null and for the words that Slurm has for none."""
    return value if isinstance(value, str) and value not in ("(null)", "None", "N/A") else ""
