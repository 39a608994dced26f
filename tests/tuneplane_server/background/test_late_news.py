"""News of an end that come late or in the wrong order (scenario 3), on both databases."""

from __future__ import annotations

import itertools

import pytest

from tests.tuneplane_server.harness import Harness
from tuneplane_server.domain.phases import Phase, Reason, Verdict
from tuneplane_server.domain.transitions import Event, Evidence
from tuneplane_server.features.accounts.principal import Principal

SUCCEEDED = Verdict(Phase.SUCCEEDED, None, from_outcome=True)
FAILED = Verdict(Phase.FAILED, Reason("no-outcome"), from_outcome=False)
CANCELLED = Verdict(Phase.CANCELLED, Reason("cancelled"), from_outcome=True)
# What each teller says, from the first word to the last.
NEWS = {
    "succeeded": [(Event.OUTCOME, SUCCEEDED), (Event.ENDED, SUCCEEDED), (Event.CLEANED, None), (Event.SETTLED, None)],
    "failed": [(Event.ENDED, FAILED), (Event.CLEANED, None), (Event.SETTLED, None)],
    "cancelled": [(Event.CANCEL, None), (Event.ENDED, CANCELLED), (Event.CLEANED, None), (Event.SETTLED, None)],
}


@pytest.mark.parametrize("order", list(itertools.permutations(NEWS)), ids="-".join)
async def test_the_first_end_is_what_the_run_ends_as(harness: Harness, ada: Principal, order: tuple[str, ...]) -> None:
    """Scenario 3: `succeeded` from the runner, `failed` from a late poll, a late cancel, in all six orders → the terminal phase
    is the first, the others are recorded as ignored.
    """
    job_id = await harness.running_job(ada)
    ledger = harness.services.ledger
    for teller in order:
        for event, verdict in NEWS[teller]:
            await ledger.apply(job_id, event, Evidence(harness.time.now, verdict=verdict))
    job = await harness.job(job_id)
    assert job.phase == order[0]
    late = [str(event) for teller in order[1:] for event, _verdict in NEWS[teller]]
    assert await harness.kinds(job_id, ignored=True) == late
    finished = job.finished_at
    await harness.round(2)
    job = await harness.job(job_id)
    assert (job.phase, job.finished_at) == (order[0], finished)
