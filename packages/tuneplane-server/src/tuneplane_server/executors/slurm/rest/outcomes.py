"""What the error numbers of Slurm mean for us (slurm/slurm_errno.h): pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from tuneplane_server.executors.slurm.rest.transport import Answer

Verdict = Literal["fine", "refused", "not-found", "auth", "doubtful", "unreachable", "lost", "gone"]

INVALID_JOB_ID = 2017
ALREADY_DONE = 2021
EMPTY_RESULT = 9003
# The request did not arrive: SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR and its like, a slurmctld in standby.
_NOT_ARRIVED = frozenset({1001, 1021, 1800, 2027, 2131})
# It may have arrived, the answer did not come back.
_CUT_OFF = frozenset({1002, 1003, 1004, 1022, 1023, 1801, 1802, 1803, 1804, 1805, 5003, 5004, 1025})
# A slurmdbd that cannot be asked.
_NO_DATABASE = frozenset({7000, 7008})
_BAD_TOKEN = frozenset({1007, 6000, 6001, 6007, 9008})
# 22.05: slurmctld hangs up on a token it does not like, which is also what one looks like that dies.
_ZERO_BYTES = 5005
_UNSPECIFIED = -1
_NO_ADDRESS = 404
_OWN_NUMBERS = 1900  # below are those of the operating system and of the transport between Slurm's daemons
_AUTH_STATUS = frozenset({401, 403, 511})


@dataclass(frozen=True)
class Problem:
    """One entry of `errors`."""

    code: int | None
    text: str


def problems(body: dict[str, Any] | None) -> tuple[Problem, ...]:
    """The errors of an answer, whatever its version calls their fields."""
    found = (body or {}).get("errors")
    return tuple(_problems(found)) if isinstance(found, list) else ()


def job_id_of(body: dict[str, Any] | None) -> int | None:
    """The job that a submit has made."""
    found = (body or {}).get("job_id")
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None


def warnings(body: dict[str, Any] | None) -> tuple[str, ...]:
    found = (body or {}).get("warnings")
    if not isinstance(found, list):
        return ()
    return tuple(_said(each.get("description"), each.get("source")) for each in found if isinstance(each, dict))


def verdict(answer: Answer) -> Verdict:
    """What an answer is. `doubtful`: 22.05 says the same of a bad token and of a controller that is away. `lost`: the
    request may have arrived, only its answer did not. `gone`: the server has no such address, for example of a data version."""
    if job_id_of(answer.body) is not None:
        # What stands beside it, also a status made of it, is why the job has to wait: 22.05 tells of nodes that are down as of an
        # error. A submit that is refused has no id (src/slurmrestd/plugins/openapi/slurmctld/jobs.c: _job_post_submit).
        return "fine"
    codes = {problem.code for problem in problems(answer.body)}
    if answer.status in _AUTH_STATUS or codes & _BAD_TOKEN:
        return "auth"
    if codes & {_UNSPECIFIED, _ZERO_BYTES}:
        return "doubtful"
    if codes & _CUT_OFF:
        return "lost"
    if codes & (_NOT_ARRIVED | _NO_DATABASE):
        return "unreachable"
    if INVALID_JOB_ID in codes:
        return "not-found"
    if answer.status == _NO_ADDRESS and not codes:
        return "gone"
    if answer.body is None:  # a proxy's page, or an end that is missing
        return "lost"
    # 24.11 says "Operation not permitted" (1) of a controller that is away: only Slurm's own numbers are a no of its.
    if any(code is not None and code >= _OWN_NUMBERS for code in codes):
        return "refused"
    if answer.status >= 500:
        return "lost"
    return "fine" if answer.status < 300 and not codes else "refused"


def summary(answer: Answer) -> Problem:
    """The first error in Slurm's words, the status when there is none."""
    found = problems(answer.body)
    if found:
        return found[0]
    return Problem(None, f"status {answer.status}" + (f": {answer.text}" if answer.text else ""))


def _problems(found: list[Any]) -> Iterator[Problem]:
    for each in found:
        if isinstance(each, str):
            yield Problem(None, each[:500])
        elif isinstance(each, dict):
            code = next(
                (each[name] for name in ("error_number", "error_code", "errno") if isinstance(each.get(name), int)),
                None,
            )
            yield Problem(code or None, _said(each.get("error"), each.get("description")))


def _said(*parts: object) -> str:
    said = dict.fromkeys(part.strip() for part in parts if isinstance(part, str) and part.strip())
    return ": ".join(said)[:500]
