"""Tells everybody on the console when Slurm cannot be asked, and of the token's end before it comes."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from tuneplane_server.background.leases import Lease
from tuneplane_server.background.loop import Work
from tuneplane_server.clock import Clock
from tuneplane_server.domain.findings import SLURM_TOKEN, SLURM_TOKEN_EXPIRING, SLURM_UNREACHABLE
from tuneplane_server.executors.slurm.checking import HealthAsked, health_findings
from tuneplane_server.findings import Findings
from tuneplane_server.slurm_settings import SlurmSettings

log = structlog.get_logger(__name__)

_TOKEN = {"slurm-token": SLURM_TOKEN, "slurm-token-expired": SLURM_TOKEN, "slurm-token-expiring": SLURM_TOKEN_EXPIRING}


class SlurmWatch:
    """Each console looks for itself: what it finds is of its own way to slurmrestd."""

    name = "slurm"
    topics = ()
    interval = 30.0

    def __init__(self, clock: Clock, client: HealthAsked, slurm: SlurmSettings, findings: Findings) -> None:
        self._clock, self._client, self._slurm, self._findings = clock, client, slurm, findings

    async def due(self) -> Sequence[Work]:
        """No row is ever due: the look itself is the work, and it is bounded by the client's own time."""
        health, found = await health_findings(self._client, self._slurm, self._clock.now())
        wrong = {_TOKEN.get(item.code, SLURM_UNREACHABLE): item for item in found if item.level != "info"}
        expires = None if health is None else health.token_expires_at
        for code in (SLURM_UNREACHABLE, SLURM_TOKEN, SLURM_TOKEN_EXPIRING):
            if code not in wrong:
                self._findings.clear(code)
            elif self._findings.put(code, {"when": f"{expires:%Y-%m-%d %H:%M} UTC" if expires else "?"}):
                item = wrong[code]
                log.warning("something is wrong with Slurm", code=item.code, what=item.text, detail=item.detail)
        return ()

    async def handle(self, work: Work, lease: Lease) -> None:
        """Nothing is due."""

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        """Nothing is due."""
