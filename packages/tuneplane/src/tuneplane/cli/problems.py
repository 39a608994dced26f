"""Errors as people and scripts read them: what, where (file:line), why, what to do. On stderr; as JSON with `--json`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tuneplane.cli.exits import FAILED, NOT_SIGNED_IN, REFUSED, UNREACHABLE, USAGE
from tuneplane.cli.text import clean
from tuneplane.i18n import _, ngettext
from tuneplane.quoted_words import system_words

if TYPE_CHECKING:
    from tuneplane.contract.refusals import Refusal

DEBUG_VARIABLE = "TUNEPLANE_DEBUG"


class Problem(NamedTuple):
    """One error ready to be shown; `refusals` when there are several reasons with their places."""

    code: str
    message: str
    hint: str
    exit_code: int
    refusals: tuple[Refusal, ...] = ()


def write_problem(problem: Problem, *, as_json: bool) -> None:
    """Write it to stderr."""
    if as_json:
        import json

        text = json.dumps(_as_json(problem), indent=2, ensure_ascii=False) + "\n"
    else:
        text = _as_text(problem)
    sys.stderr.write(text)
    sys.stderr.flush()


def to_problem(error: BaseException) -> Problem | None:
    """The problem for an error that a command may end with; None for one nobody foresaw."""
    # The classes are compared by name of module first: importing them here would cost every failing command its start-up.
    from tuneplane.contract.refusals import RefusedError

    if isinstance(error, RefusedError):
        first = error.refusals[0]
        return Problem(first.code, first.message, first.hint, REFUSED, tuple(error.refusals))
    errors = sys.modules.get("tuneplane.client.errors")
    if errors is not None and isinstance(error, errors.ConsoleError):
        exit_code = (
            UNREACHABLE
            if isinstance(error, errors.UnreachableError)
            else NOT_SIGNED_IN
            if isinstance(error, errors.NotSignedInError)
            else FAILED
        )
        return Problem(error.code, error.message, error.hint, exit_code)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return Problem("os-error", f"{where}{system_words(error)}", "", FAILED)
    return None


def unforeseen(error: BaseException) -> Problem:
    """A fault of `tp` itself. Said in one line; the traceback only for those who ask for it."""
    if os.environ.get(DEBUG_VARIABLE):
        import traceback

        traceback.print_exception(error)
    what = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    return Problem(
        "internal-error",
        _("tp failed: {what}").format(what=what),
        _("this is a fault of tp; {variable}=1 shows where it happened").format(variable=DEBUG_VARIABLE),
        FAILED,
    )


def usage(message: str, hint: str = "") -> Problem:
    return Problem("usage", message, hint, USAGE)


def _as_json(problem: Problem) -> dict[str, Any]:
    """RFC 9457 shape, with our code, hint and refusals."""
    value: dict[str, Any] = {
        "type": "about:blank",
        "title": problem.message,
        "detail": problem.message,
        "code": problem.code,
        "hint": problem.hint,
        "exit_code": problem.exit_code,
    }
    if problem.refusals:
        value["refusals"] = [refusal.to_json() for refusal in problem.refusals]
    return value


def _as_text(problem: Problem) -> str:
    refusals = problem.refusals
    if not refusals:
        return _block(_("error: "), problem.message, problem.hint, problem.code if problem.exit_code == REFUSED else "")
    if len(refusals) == 1:
        return _refusal_text(_("refused: "), refusals[0])
    count = ngettext("refused, for {count} reason:", "refused, for {count} reasons:", len(refusals))
    head = count.format(count=len(refusals)) + "\n"
    return head + "".join(_refusal_text("- ", refusal) for refusal in refusals)


def _refusal_text(prefix: str, refusal: Refusal) -> str:
    where = _where(refusal)
    return _block(prefix, f"{where}: {refusal.message}" if where else refusal.message, refusal.hint, refusal.code)


def _where(refusal: Refusal) -> str:
    if not refusal.file:
        return refusal.field
    file = _shown_path(refusal.file)
    return f"{file}:{refusal.line}" if refusal.line else file


def _shown_path(path: str) -> str:
    """Relative to the working directory where that is shorter; a terminal can make it a link either way."""
    try:
        relative = os.path.relpath(path) if Path(path).is_absolute() else path
    except (ValueError, OSError):
        return path
    return relative if len(relative) < len(path) else path


def _block(prefix: str, message: str, hint: str, code: str) -> str:
    tail = f"  [{code}]" if code else ""
    text = f"{prefix}{clean(message)}{tail}\n"
    return text + (f"  → {clean(hint)}\n" if hint else "")
