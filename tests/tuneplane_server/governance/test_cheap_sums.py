"""Sums that are kept between two looks, or beside the rows: the same as adding everything up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import event, func, select, update

from tests.tuneplane_server.harness import Harness
from tuneplane_server.domain.quotas import Use, day_of, month_of, use_in
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.artifacts import repo as artifacts
from tuneplane_server.features.artifacts.tables import ArtifactFileRow
from tuneplane_server.features.governance.quotas import Subject
from tuneplane_server.features.hardware.tables import GpuUseRow


async def test_hours_are_what_adding_up_every_use_gives(harness: Harness, ada: Principal) -> None:
    """Through a month and over its end, with looks at random times and a console that starts anew."""
    dice, database = Random(11), harness.services.database
    harness.time.now = datetime(2026, 1, 29, 20, tzinfo=UTC)
    live: list[str] = []
    for step in range(60):
        harness.time.pass_(dice.choice((20, 300, 1500, 5000, 20_000)))
        now = harness.time.now
        async with database.begin() as session:
            for _number in range(dice.randrange(4)):
                job_id = harness.services.clock.new_id()
                live.append(job_id)
                session.add(
                    GpuUseRow(
                        job_id=job_id,
                        attempt=1,
                        owner_id=dice.choice((ada.user_id, "somebody")),
                        project_id="lab",
                        gpus=dice.choice((0, 1, 8)),
                        started_at=now - timedelta(seconds=dice.choice((0, 4000, 90_000))),
                        reserved_until=dice.choice((None, now + timedelta(hours=7))),
                    )
                )
            await session.flush()
            for job_id in [item for item in live if dice.random() < 0.4]:
                live.remove(job_id)
                await session.execute(update(GpuUseRow).where(GpuUseRow.job_id == job_id).values(ended_at=now))
        if step == 40:
            await harness.restart()
        if dice.random() < 0.7:
            for subject in (Subject("user", ada.user_id, "ada"), Subject("project", "lab", "ada/lab", ada.user_id)):
                assert await _kept(harness, subject, now) == pytest.approx(await _plain(harness, subject, now))


async def _kept(harness: Harness, subject: Subject, now: datetime) -> tuple[float, float]:
    governance = harness.services.governance
    async with harness.services.database.session() as session:
        account = await governance.account(session, subject, await governance.book(session), now)
    return account.gpu_seconds_day, account.gpu_seconds_month


async def _plain(harness: Harness, subject: Subject, now: datetime) -> tuple[float, float]:
    mine = GpuUseRow.owner_id if subject.scope == "user" else GpuUseRow.project_id
    async with harness.services.database.session() as session:
        rows = list(await session.scalars(select(GpuUseRow).where(mine == subject.id)))
    uses = [Use(row.gpus, row.started_at, row.reserved_until, row.ended_at) for row in rows]
    day, month = day_of(now), month_of(now)
    return use_in(day.start, day.end, uses, now), use_in(month.start, month.end, uses, now)


async def test_settled_uses_are_read_once_however_many_there_are(harness: Harness, ada: Principal) -> None:
    harness.time.now = datetime(2026, 1, 20, tzinfo=UTC)
    start = datetime(2026, 1, 3, tzinfo=UTC)
    async with harness.services.database.begin() as session:
        session.add_all(
            GpuUseRow(
                job_id=f"run{number:012d}", attempt=1, owner_id=ada.user_id, project_id="lab", gpus=1, started_at=start,
                reserved_until=None, ended_at=start + timedelta(hours=1),
            )
            for number in range(1203)
        )  # fmt: skip
    subject, now = Subject("user", ada.user_id, "ada"), harness.time.now
    assert (await _kept(harness, subject, now))[1] == 1203 * 3600
    fetched: list[str] = []
    engine = harness.services.database._reader.sync_engine
    event.listen(engine, "before_cursor_execute", lambda *given: fetched.append(given[2]))
    assert (await _kept(harness, subject, now + timedelta(seconds=30)))[1] == 1203 * 3600
    assert (
        sum("gpu_uses" in statement for statement in fetched) == 1
    )  # the live and the late ones, of which there are none


async def test_what_is_stored_is_the_sum_over_all_files(harness: Harness, ada: Principal, tmp_path: Path) -> None:
    dice, database = Random(5), harness.services.database
    ids = await harness.put_live_jobs(ada, 4)
    for _step in range(12):
        job_id, attempt = dice.choice(ids), dice.randrange(1, 3)
        out = tmp_path / f"{job_id}-{attempt}"
        out.mkdir(exist_ok=True)
        (out / f"file{dice.randrange(5)}.bin").write_bytes(b"x" * dice.randrange(5000))
        await harness.services.artifacts.register(job_id, attempt, out)
        if dice.random() < 0.4:
            (out / "grown.bin").write_bytes(b"y" * 10)
            await harness.services.artifacts.register(job_id, attempt, out)
            (out / "grown.bin").write_bytes(b"y" * dice.randrange(9000))  # it has another size when it is hashed
            await harness.services.artifacts.complete_hashes(job_id)
        async with database.session() as session:
            plain = await session.scalar(select(func.sum(ArtifactFileRow.size)))
            runs = harness.services.jobs.runs_of(owner_id=ada.user_id)
            assert await artifacts.bytes_of(session, runs) == plain
