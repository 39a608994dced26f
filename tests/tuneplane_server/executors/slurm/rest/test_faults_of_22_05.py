"""What 22.05 leaves open: it says the same of a token that it does not take and of a controller that is away."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane_server.executors.slurm.rest.servers import Asked, answers, send, server
from tests.tuneplane_server.executors.slurm.rest.test_faults import failing, hang_up
from tests.tuneplane_server.executors.slurm.rest.test_submitting import GOOD
from tuneplane_server.executors.slurm.rest.client import SlurmClient
from tuneplane_server.executors.slurm.rest.models import SlurmError

UNSPECIFIED = {"errors": [{"error_number": -1, "error": "Unspecified error", "source": "slurm_load_jobs"}]}
OLD = {"paths": {"/slurm/v0.0.38/job/submit": {}}}


@pytest.mark.parametrize(
    ("probe", "kind"),
    [
        ((500, {"errors": [{"error_number": 5005, "error": "Zero Bytes were transmitted or received"}]}), "auth"),
        ((500, {"errors": [{"error_number": 1800, "error": "connect failure"}]}), "unreachable"),
        ((500, {"errors": [{"error_number": 2017, "error": "Invalid job id specified"}]}), "unreachable"),
        (hang_up, "unreachable"),
    ],
)
async def test_a_bad_token_of_22_05_is_told_from_a_controller_that_is_away(probe: Any, kind: str) -> None:
    given = {"GET /openapi/v3": (200, OLD), "DELETE": probe, "/jobs": (500, UNSPECIFIED)}
    problem, there = await failing(given, lambda client: client.jobs())
    assert problem.kind == kind
    assert {sent.path for sent in there.of("DELETE", "")} == {"/slurm/v0.0.38/job/0?signal=CONT"}


@pytest.mark.parametrize("probe", [2017, 5005, 1007])
async def test_a_controller_that_hangs_up_during_a_submit_may_have_taken_it(tmp_path: Path, probe: int) -> None:
    """Whatever is said of the token afterwards, and although there is a new one: a second submit would be a second job."""
    file = tmp_path / "token"
    file.write_text("old")

    async def die(asked: Asked, writer: asyncio.StreamWriter) -> None:
        file.write_text("new")
        said = {"error_code": 5005, "error": "Zero Bytes were transmitted or received"}
        await send(writer, 500, {"errors": [said]})

    given: dict[str, Any] = {
        "GET /openapi/v3": (200, OLD),
        "POST": die,
        "DELETE": (500, {"errors": [{"error_number": probe}]}),
    }
    async with server(answers(given)) as there:
        client = SlurmClient(there.url, "tester", file)
        with pytest.raises(SlurmError) as problem:
            await client.submit(GOOD)
        await client.close()
    assert (problem.value.kind, len(there.of("POST", ""))) == ("unknown-outcome", 1)
