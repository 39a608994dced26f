"""What an entry of the table of reasons is, and what in a log gives a reason away."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Literal

type ReasonClass = Literal["user", "infra", "platform", "policy"]


class Signal(IntEnum):
    """As Linux numbers them on x86 and ARM, where the training runs: the console may run on something else."""

    SIGHUP = 1
    SIGINT = 2
    SIGILL = 4
    SIGABRT = 6
    SIGBUS = 7
    SIGKILL = 9
    SIGSEGV = 11
    SIGTERM = 15
    SIGXFSZ = 25


class Weight(IntEnum):
    """How much a sign in a log says about the cause. The lowest that is found counts; among equals the earliest in the log."""

    CAUSE = 0  # is the cause wherever it stands, also among what other ranks say
    RAISED = 1  # an exception that names the cause
    GENERAL = 2  # an exception that names it less exactly: a more particular one beside it counts first
    DIED = 3  # a process was ended by a signal, or by its exit code says how
    UNKNOWN = 4  # an exception the table does not know: the trainer failed, and this line is why
    CONSEQUENCE = 5  # a rank or a worker missed another: only the cause when nothing else is
    LAST_RESORT = 6  # said along with almost any failure


@dataclass(frozen=True)
class Sign:
    """`expression` is searched in any line, or, with `exception`, at the beginning of an exception's own line without its module:
    `DistStoreError: Timed out …`. Named groups fill the reason's text. Expressions are bounded and nest no repetition, so that
    their cost is linear in the log.
    """

    expression: str
    weight: Weight
    exception: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when it is first used: a console that only starts or answers does not pay for a hundred of them."""
        return re.compile(self.expression, re.MULTILINE)


def anywhere(expression: str, weight: Weight = Weight.CAUSE) -> Sign:
    return Sign(expression, weight)


def raised(expression: str, weight: Weight = Weight.RAISED) -> Sign:
    return Sign(expression, weight, exception=True)


@dataclass(frozen=True)
class ReasonEntry:
    """`class_`: user (the experiment), infra (machines, network, store), platform (TunePlane itself), policy (a limit somebody
    set). `retry`: whether a further attempt can help; whether one is made is the job's `limits.retries` for the class.
    `text` and `hint` are message ids; `{…}` is filled from the reason's data. `signals` and `exit_codes` (as a shell counts
    them): what an end by them means when the log says nothing more. `seen`: a line that people meet, for the manual.
    """

    code: str
    class_: ReasonClass
    text: str
    hint: str
    retry: bool
    signs: tuple[Sign, ...] = ()
    signals: tuple[int, ...] = ()
    exit_codes: tuple[int, ...] = ()
    seen: str = ""

    @property
    def anchor(self) -> str:
        """Page and heading below docs/<language>."""
        return f"reference/reasons#{self.code}"
