"""One run that floods the console waits for itself; its neighbours get their turn between two of its batches."""

from __future__ import annotations

import asyncio

from tests.tuneplane_server.ingest.conftest import JOB, OTHER, Runner
from tests.tuneplane_server.ingest.wire_build import log
from tuneplane_server.features.telemetry.limits import MIB, TelemetryLimits
from tuneplane_server.features.telemetry.log_reader import LogQuery

BATCHES, LINES = 24, 4
LINE = "x" * 59_999 + "\n"


async def page_of(console, job):
    return await console.services.telemetry.logs.page(job, LogQuery(limit=5000), live_attempt=None)


async def test_a_run_that_prints_a_gigabyte_in_a_minute_is_kept_up_to_its_quota_and_delays_nobody(
    client, runner, console, monkeypatch
):
    """Scenario 12, small: 5.5 MiB at once with a quota of 1 MiB. In the real size it is part of `make bench`."""
    console.services.telemetry.limits = TelemetryLimits(log_bytes=MIB)
    neighbour = Runner(client, await console.services.ingest.issue(OTHER, 1), OTHER)
    order: list[
        str
    ] = []  # what happens, one letter each: s a line of the neighbour is sent, n it is stored, f a flood is
    store, flooding = console.services.telemetry.store, BATCHES

    async def noted(job, attempt, batch):
        order.append("f" if job == JOB else "n")
        return await store(job, attempt, batch)

    monkeypatch.setattr(console.services.telemetry, "store", noted)

    async def flood(number: int) -> None:
        nonlocal flooding
        first = number * LINES + 1
        answer = await runner.send(*(log(seq, LINE) for seq in range(first, first + LINES)))
        assert answer.status_code == 200
        flooding -= 1

    async def look_on() -> None:
        """Lines of the neighbour, one after the other, as long as the flood lasts."""
        seq = 0
        while flooding:
            seq += 1
            order.append("s")
            assert (await neighbour.send(log(seq, f"line {seq}\n"))).json()["ack"] == {"1/0/log": seq}

    await asyncio.gather(look_on(), *(flood(number) for number in range(BATCHES)))
    # While a line of the neighbour's waits, at most what was under way and one more of the flood go first.
    waits = [wait.partition("n")[0] for wait in "".join(order).split("s")[1:]]
    assert max(map(len, waits)) <= 2, order

    lines = (await page_of(console, JOB)).lines
    kept = [line for line in lines if line.fd == "stdout"]
    assert len(kept) == MIB // len(LINE)
    assert [line for line in lines if line.fd == "console" and "the output passed its quota of 1 MiB" in line.text]
    usage = await console.services.telemetry.usage(JOB)
    assert usage.log_dropped_bytes == (BATCHES * LINES - len(kept)) * len(LINE)
    assert len(await console.services.telemetry.events(JOB, ["log-quota"])) == 1
    heard = [line.text for line in (await page_of(console, OTHER)).lines]
    assert heard == [f"line {seq}" for seq in range(1, len(heard) + 1)]
    # The run lives: what it reports besides output is kept as ever.
    assert (await runner.send(log(BATCHES * LINES + 1, "more\n"))).status_code == 200
    assert (await runner.beat()).status_code == 200
