"""What the end of a trainer's output says about why it failed. Text in, reasons out, the strongest first; never raises.

One process fails and the others complain: a rank out of memory lets the rest run into NCCL's time-out, and the launcher adds a
traceback of its own. So every line is weighed (`Weight`), and the earliest of the weightiest counts. What the trainer
outlived is no cause: an exception counts only if its process printed no later one of its own, and what stands before the
last logged metric counts little.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate

from tuneplane_server.domain.reasons import REASONS, ReasonEntry, Sign, Weight

UNKNOWN_EXCEPTION = "trainer-failed"
MAX_CHARS = 32_000
MAX_LINE = 2_000
QUOTE_CHARS = 500

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;:?]{0,30}[ -/]{0,3}[@-~]|\][^\x07\x1b\n]{0,300}(?:\x07|\x1b\\)|[@-Z\\^_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# Who printed a line, as launchers put it before: torch's [rank3]:, torchrun's [default3]:, Ray's (worker pid=7), mpirun, srun -l.
_WHO = re.compile(
    r"(?:\[(?:rank|default)\d{1,6}\]: ?|\([^()]{1,80}\bpid=\d{1,10}[^()]{0,60}\) ?|\[\d{1,6},\d{1,6}\]<std(?:out|err)>: ?|\d{1,5}: )"
)
_TRACEBACK = "Traceback (most recent call last)"
_INNER_TRACEBACK = (
    "Original Traceback (most recent call last)"  # the worker's, inside the message of its parent's exception
)
_FRAME_STARTS = (" ", "\t", "│", "╭", "╰", "|", "+")
_LINKS = (
    "The above exception was the direct cause of the following exception",
    "During handling of the above exception, another exception occurred",
)
_IGNORED = "Exception ignored in"
_MODULE = r"(?:[A-Za-z_]\w{0,80}\.){0,10}"
# After the lines of a traceback any name is an exception's; elsewhere only what is named like one.
_ANY_EXCEPTION = re.compile(_MODULE + r"(?P<name>[A-Za-z_]\w{0,100})(?:: |:?$)")
_EXCEPTION = re.compile(_MODULE + r"(?P<name>_?[A-Z]\w{0,100}(?:Error|Exception|Interrupt))(?:: |:?$)")
# Launchers that only pass on that a process of theirs failed.
_WRAPPERS = frozenset(
    {
        "ChildFailedError",
        "CalledProcessError",
        "ProcessRaisedException",
        "ProcessExitedException",
        "SignalException",
        "SystemExit",
    }
)
# A metric was logged: training went on, whatever was printed before.
_LIFE = re.compile(r"\{['\"](?:loss|reward|train_loss|train_runtime|eval_loss|step|epoch)['\"]: ")
_SECRETS = (
    (re.compile(r"://[^/\s:@]{0,100}:[^/\s@]{1,200}@"), "://***@"),
    (re.compile(r"\b(?:hf_|tp_|tpi_|sk-|ghp_|gho_|github_pat_|glpat-)[A-Za-z0-9_-]{16,200}"), "***"),
    (re.compile(r"\b(Bearer|Basic) [A-Za-z0-9._~+/=-]{8,2000}"), r"\1 ***"),
)


@dataclass(frozen=True)
class Found:
    """`quote`: the line that says so, as it may be shown. `data` fills the reason's text."""

    code: str
    weight: Weight
    line: int
    quote: str
    data: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Line:
    number: int
    text: str
    exception: str = ""  # "Name: message" without the module, when it is the line of an exception


@dataclass
class _Process:
    """What one process printed: its exceptions, those that led to one another together."""

    chains: list[list[_Line]] = field(default_factory=list)
    inside: bool = False  # in the lines between "Traceback" and the exception itself
    linked: bool = False  # the next exception came from the one before
    ignored: bool = False


def read_log(text: str) -> list[Found]:
    """Every reason the text gives, the one that counts first; empty when it gives none."""
    lines, processes = _sort(_clean(text))
    alive = max((line.number for line in lines if _LIFE.search(line.text)), default=-1)
    found = [*_in_lines(lines, alive), *_in_exceptions(processes)]
    weighed = [item if item.line > alive else replace(item, weight=max(item.weight, Weight.UNKNOWN)) for item in found]
    return sorted(weighed, key=lambda item: (item.weight, item.line <= alive, item.line, _ORDER[item.code]))


def quote(line: str) -> str:
    """A line of a log as it may be shown: no control characters, no secrets of known shape, not too long."""
    shown = _CONTROL.sub("\ufffd", line.strip())
    for pattern, instead in _SECRETS:
        shown = pattern.sub(instead, shown)
    return shown if len(shown) <= QUOTE_CHARS else shown[: QUOTE_CHARS - 1] + "…"


def _clean(text: str) -> list[str]:
    """The lines of the end of the text. A progress bar's carriage returns begin lines of their own."""
    plain = _ESCAPES.sub("", text[-MAX_CHARS:]).replace("\r", "\n")
    return [line[:MAX_LINE].rstrip() for line in plain.split("\n")]


def _sort(texts: Iterable[str]) -> tuple[list[_Line], Iterable[_Process]]:
    """The lines without the inside of tracebacks (it quotes source code), and the exceptions of each process."""
    processes: dict[str, _Process] = {}
    lines = []
    for number, text in enumerate(texts):
        who = _WHO.match(text)
        said = text[who.end() :] if who else text
        process = processes.setdefault(who[0] if who else "", _Process())
        if not _is_frame(process, said):
            lines.append(_line(process, number, said))
    return lines, processes.values()


def _is_frame(process: _Process, said: str) -> bool:
    if _TRACEBACK in said:
        process.inside = True
        process.linked = process.linked or _INNER_TRACEBACK in said
        return True
    return process.inside and (not said or said.startswith(_FRAME_STARTS))


def _line(process: _Process, number: int, said: str) -> _Line:
    name = (_ANY_EXCEPTION if process.inside else _EXCEPTION).match(said)
    if name is None:
        process.linked = process.linked or said.startswith(_LINKS)
        process.ignored = process.ignored or said.startswith(_IGNORED)
        return _Line(number, said)
    line = _Line(number, said, said[name.start("name") :])
    if not process.ignored:
        if not (process.linked and process.chains):
            process.chains.append([])
        process.chains[-1].append(line)
    process.inside = process.linked = process.ignored = False
    return line


def _in_lines(lines: list[_Line], alive: int) -> Iterator[Found]:
    """The first match of each sign, and its first match after the last sign of life."""
    whole = "\n".join(line.text for line in lines)
    starts = [0, *accumulate(len(line.text) + 1 for line in lines)]
    after = starts[bisect_right([line.number for line in lines], alive)]
    for entry, sign in _SIGNS_OF_LINES:
        begin = 0
        while (match := sign.pattern.search(whole, begin)) is not None:
            yield _found(entry, sign, lines[bisect_right(starts, match.start()) - 1], match)
            if match.start() >= after:
                break
            begin = after


def _in_exceptions(processes: Iterable[_Process]) -> Iterator[Found]:
    for process in processes:
        chain = next((chain for chain in reversed(process.chains) if any(map(_is_own, chain))), [])
        for line in chain:
            yield from _in_exception(line)
        if chain and _is_own(chain[-1]):
            yield Found(UNKNOWN_EXCEPTION, Weight.UNKNOWN, chain[-1].number, quote(chain[-1].text))


def _in_exception(line: _Line) -> Iterator[Found]:
    for entry, sign in _SIGNS_OF_EXCEPTIONS:
        match = sign.pattern.match(line.exception)
        if match is not None:
            yield _found(entry, sign, line, match)


def _is_own(line: _Line) -> bool:
    """Whether an exception is of the process itself: neither a launcher's nor what the end of another process caused."""
    name = line.exception.partition(":")[0]
    return name not in _WRAPPERS and not any(sign.pattern.search(line.text) for sign in _CONSEQUENCES)


def _found(entry: ReasonEntry, sign: Sign, line: _Line, match: re.Match[str]) -> Found:
    data = {name: quote(value) for name, value in match.groupdict().items() if value is not None}
    return Found(entry.code, sign.weight, line.number, quote(line.text), data)


_ORDER = {code: place for place, code in enumerate(REASONS)}
_SIGNS = [(entry, sign) for entry in REASONS.values() for sign in entry.signs]
_SIGNS_OF_LINES = [item for item in _SIGNS if not item[1].exception]
_SIGNS_OF_EXCEPTIONS = [item for item in _SIGNS if item[1].exception]
_CONSEQUENCES = [sign for _, sign in _SIGNS_OF_LINES if sign.weight is Weight.CONSEQUENCE]
