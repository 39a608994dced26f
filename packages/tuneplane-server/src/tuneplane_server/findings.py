"""What is wrong with this console for now: one place that the banner, `/healthz` and `/metrics` read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tuneplane.i18n import _
from tuneplane_server.clock import Clock
from tuneplane_server.domain.findings import FINDINGS
from tuneplane_server.domain.reasons import fill


@dataclass(frozen=True)
class ConsoleFinding:
    """`code` of `domain.findings.FINDINGS`; `data` fills its texts."""

    code: str
    since: datetime
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """In the reader's language."""
        return fill(_(FINDINGS[self.code].text), self.data)

    @property
    def hint(self) -> str:
        return fill(_(FINDINGS[self.code].hint), self.data)


class Findings:
    """In this process only: each replica finds its own. To be used on the event loop's thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: dict[str, ConsoleFinding] = {}

    def put(self, code: str, data: Mapping[str, Any] | None = None) -> bool:
        """Note it, with figures of now; True when it is new."""
        before = self._found.get(code)
        since = self._clock.now() if before is None else before.since
        self._found[code] = ConsoleFinding(code, since, dict(data or {}))
        return before is None

    def clear(self, code: str) -> bool:
        """True when it was there."""
        return self._found.pop(code, None) is not None

    def has(self, code: str) -> bool:
        return code in self._found

    def all(self) -> list[ConsoleFinding]:
        """The oldest first."""
        return sorted(self._found.values(), key=lambda finding: (finding.since, finding.code))
