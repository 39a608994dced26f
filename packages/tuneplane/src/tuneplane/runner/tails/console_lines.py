"""Numbers in lines that trainers print. The adapter or the recipe says which shape; nothing is guessed.

`dict`: transformers 5, `trainer_callback.py`, ProgressCallback and PrinterCallback print each log as a Python dict, `{'loss':
'1.234', 'epoch': '0.1'}` (before 5: numbers). It names no step, so the lines are counted, unless ms-swift's keys are in it.
`verl`: verl 0.9.1, `verl/utils/logger/aggregate_logger.py`, concat_dict_to_str: `step:12 - actor/loss:0.3 - x:np.float64(1.0)`,
behind Ray's `(TaskRunner pid=1)` in colours. `key-value`: `step=12 loss=0.3 lr=1e-5`, as many loggers print.
"""

from __future__ import annotations

import re
from typing import Callable, Dict, Iterator, Optional, Set

from tuneplane.runner import limits
from tuneplane.runner.tails.scalars import STEP_KEYS, NotScalarsError, Scalars, number_of, step_of

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf|infinity)"
_DICT_ENTRY = re.compile(r"'((?:[^'\\]|\\.){1,400})': ('?)([^',}]{1,400})\2(?=[,}])")
_VERL = re.compile(r"(?:\A|[\s)m])step:(-?\d{1,15}) - ")
_VERL_VALUE = re.compile(r"(?:np\.\w+\()?(" + _NUMBER + r")\)?\Z", re.I)
_PAIR = re.compile(r"(?<![^\s,;|(\[])([A-Za-z_][\w./@-]{0,199})=(" + _NUMBER + r")(?=[\s,;|)\]]|\Z)", re.I)
_PLAIN = re.compile(_NUMBER + r"\Z", re.I)
_BREAK = re.compile(rb"[\r\n]")


class ConsoleLines:
    """Put output together to lines, of stdout and stderr apart, and reads the numbers in them."""

    def __init__(self, shape: str) -> None:
        self._read = SHAPES[shape]()
        self._begun: Dict[str, bytes] = {}
        self._skipping: Set[str] = set()  # streams within a line that is passed over
        self._mark = MARKS[shape]

    def feed(self, fd: str, data: bytes, time: float) -> Iterator[Scalars]:
        """Scalars of the lines that end in `data`; what is begun waits for its end. A progress bar's `\\r` ends a line too."""
        parts = _BREAK.split(self._begun.pop(fd, b"") + data)
        if len(parts) > 1 and fd in self._skipping:
            self._skipping.discard(fd)
            del parts[0]
        rest = parts.pop()
        if len(rest) > limits.CONSOLE_LINE_BYTES:
            self._skipping.add(fd)
        elif rest and fd not in self._skipping:
            self._begun[fd] = rest
        for part in parts:
            yield from self._scalars(part, time)

    def finish(self, time: float) -> Iterator[Scalars]:
        """What is begun has no end any more and is read as it is."""
        begun, self._begun = self._begun, {}
        for part in begun.values():
            yield from self._scalars(part, time)

    def _scalars(self, line: bytes, time: float) -> Iterator[Scalars]:
        if self._mark not in line or len(line) > limits.CONSOLE_LINE_BYTES:
            return
        found = self._read(line.decode("utf-8", "replace"), time)
        if found is not None and found.values:
            yield found


class _Dicts:
    """Counts the lines when they name no step."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, line: str, time: float) -> Optional[Scalars]:
        entries = {key: value for key, _, value in _DICT_ENTRY.findall(line, line.index("{'"), line.rfind("}") + 1)}
        values = {key: float(value) for key, value in entries.items() if _PLAIN.match(value)}
        epoch = number_of(values.pop("epoch", None))
        steps = {
            key: entries[key] if "/" in entries[key] else values.pop(key, None) for key in STEP_KEYS if key in entries
        }
        if not values:
            return None
        self._count += 1
        try:
            step = step_of(steps)
        except NotScalarsError:
            step = self._count
        return Scalars(step, time, epoch, values)


def _verl(line: str, time: float) -> Optional[Scalars]:
    match = _VERL.search(line)
    if match is None:
        return None
    values: Dict[str, float] = {}
    for part in line[match.end() :].split(" - "):
        name, _, text = part.rpartition(":")
        number = _VERL_VALUE.match(text.strip())
        if name and number is not None:
            values[name] = float(number.group(1))
    return Scalars(int(match.group(1)), time, None, values)


def _key_values(line: str, time: float) -> Optional[Scalars]:
    values = {name: float(text) for name, text in _PAIR.findall(line)}
    try:
        step = step_of(values)
    except NotScalarsError:
        return None  # without a step it may be anything
    epoch = number_of(values.pop("epoch", None))
    return Scalars(step, time, epoch, {name: value for name, value in values.items() if name not in STEP_KEYS})


SHAPES: Dict[str, Callable[[], Callable[[str, float], Optional[Scalars]]]] = {
    "dict": _Dicts,
    "verl": lambda: _verl,
    "key-value": lambda: _key_values,
}
# What every line of a shape holds: most lines are put aside for the price of a search.
MARKS = {"dict": b"{'", "verl": b"step:", "key-value": b"="}
