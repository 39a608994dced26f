"""The limit of queued jobs holds however many are submitted at the same moment, and whatever leaves the queue meanwhile."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from sqlalchemy import func, select

from tests.tuneplane_server.governance.test_admission import limit
from tests.tuneplane_server.harness import Harness, jobspec
from tuneplane.contract.refusals import RefusedError
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.governance.quotas import Subject
from tuneplane_server.features.jobs.tables import JobRow


async def _submit(harness: Harness, who: Principal, project: str) -> str:
    """ok, or the code of the refusal."""
    spec = jobspec()
    spec["metadata"]["project"] = project
    try:
        await harness.submit(who, spec)
    except RefusedError as error:
        return error.refusals[0].code
    return "ok"


async def _queued(harness: Harness, **of: str) -> int:
    async with harness.services.database.session() as session:
        query = select(func.count()).select_from(JobRow).where(JobRow.phase == "queued").filter_by(**of)
        return await session.scalar(query) or 0


@pytest.mark.parametrize("replicas", [1, 2])
async def test_as_many_are_admitted_at_once_as_there_are_places(
    harness: Harness, ada: Principal, replicas: int
) -> None:
    await limit(harness, "user", {"queued_jobs": 5})
    consoles = [harness, harness.replica()][:replicas]
    answers = await asyncio.gather(*(_submit(consoles[n % replicas], ada, "lab") for n in range(16)))
    assert sorted(answers) == ["ok"] * 5 + ["quota-exceeded"] * 11
    assert await _queued(harness, owner="ada") == 5
    for console in consoles[1:]:
        await console.close()


async def test_neither_the_owners_nor_the_projects_limit_is_ever_passed(harness: Harness, ada: Principal) -> None:
    """Rounds of simultaneous submissions to two projects, while jobs leave the queue by cancels."""
    dice, services = Random(7), harness.services
    await limit(harness, "user", {"queued_jobs": 6})
    root = Principal("", "root", admin=True, scopes=frozenset())
    await services.governance.set_quota(root, Subject("project", "", ""), {"queued_jobs": 4}, 0)
    admitted = 0
    for _round in range(6):
        before = await _queued(harness, owner="ada")
        async with services.database.session() as session:
            waiting = list(await session.scalars(select(JobRow.id).where(JobRow.phase == "queued")))
        leaving = [job_id for job_id in waiting if dice.random() < 0.5]
        answers = await asyncio.gather(
            *(_submit(harness, ada, dice.choice(("lab", "other"))) for _n in range(8)),
            *(services.jobs.cancel(ada, job_id) for job_id in leaving),
        )
        admitted += answers.count("ok")
        assert await _queued(harness, owner="ada") == before - len(leaving) + answers.count("ok") <= 6
        for project in ("lab", "other"):
            assert await _queued(harness, owner="ada", project=project) <= 4
    assert admitted > 6
