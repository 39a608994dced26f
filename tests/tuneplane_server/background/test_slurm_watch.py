"""The banner says that Slurm cannot be asked, and tells of the token's end before it comes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pydantic import SecretStr

from tuneplane_server.background.slurm_watch import SlurmWatch
from tuneplane_server.clock import SYSTEM_CLOCK
from tuneplane_server.domain.findings import SLURM_TOKEN, SLURM_TOKEN_EXPIRING, SLURM_UNREACHABLE
from tuneplane_server.domain.slurm_choices import Partitions, QosLevels
from tuneplane_server.executors.slurm.rest.models import Health, SlurmError
from tuneplane_server.findings import Findings
from tuneplane_server.slurm_settings import SlurmSettings

SLURM = SlurmSettings(
    url="http://slurm:6820", user="me", token=SecretStr("x"), token_file=None, ca_file=None, container="apptainer",
    partitions=Partitions(), account=None, qos=QosLevels(), reservation=None, time_limit_minutes=None,
    lost_after=timedelta(seconds=120),
)  # fmt: skip


class Answers:
    """What Slurm says next; an error is raised."""

    def __init__(self) -> None:
        self.next: Health | SlurmError = SlurmError("unreachable", "refused")

    async def health(self) -> Health:
        if isinstance(self.next, SlurmError):
            raise self.next
        return self.next


async def test_what_is_wrong_is_shown_as_long_as_it_is() -> None:
    slurm, findings, now = Answers(), Findings(SYSTEM_CLOCK), datetime.now(UTC)
    watch = SlurmWatch(SYSTEM_CLOCK, slurm, SLURM, findings)
    fresh = now + timedelta(days=30)
    for answer, codes in (
        (SlurmError("unreachable", "refused"), [SLURM_UNREACHABLE]),
        (SlurmError("auth", "Authentication failure", 1007), [SLURM_TOKEN]),
        (Health("24.11.5", "v0.0.42", False, fresh, now), [SLURM_UNREACHABLE]),
        (
            Health("24.11.5", "v0.0.42", True, now + timedelta(hours=3), now - timedelta(days=30)),
            [SLURM_TOKEN_EXPIRING],
        ),
        (Health("24.11.5", "v0.0.42", True, fresh, now), []),
        (Health("24.11.5", "v0.0.42", True, None, None), []),
    ):
        slurm.next = answer
        assert await watch.due() == ()
        assert [item.code for item in findings.all()] == codes


async def test_the_end_of_the_token_is_named() -> None:
    slurm, findings, now = Answers(), Findings(SYSTEM_CLOCK), datetime.now(UTC)
    slurm.next = Health("24.11.5", "v0.0.42", True, now + timedelta(hours=3), now - timedelta(days=30))
    await SlurmWatch(SYSTEM_CLOCK, slurm, SLURM, findings).due()
    assert f"{now + timedelta(hours=3):%Y-%m-%d %H:%M} UTC" in findings.all()[0].text
