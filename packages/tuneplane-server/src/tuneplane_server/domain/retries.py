"""Whether a further attempt is made: the reason allows it and the job's limit for its class is not used up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tuneplane_server.domain.phases import Phase, Verdict
from tuneplane_server.domain.reasons import REASONS


def may_retry(verdict: Verdict, earlier_reasons: Iterable[str], limits: Mapping[str, int]) -> bool:
    """`earlier_reasons`: codes of the attempts before this one; `limits`: class -> further attempts (`spec.limits.retries`)."""
    if verdict.phase is Phase.SUCCEEDED or verdict.reason is None:
        return False
    entry = REASONS[verdict.reason.code]
    used = sum(1 for code in earlier_reasons if code in REASONS and REASONS[code].class_ == entry.class_)
    return entry.retry and used < limits.get(entry.class_, 0)
