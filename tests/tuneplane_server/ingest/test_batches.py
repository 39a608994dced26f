"""`POST …/batches` and `…/heartbeat` over HTTP: what is taken, what is refused and how, what the ledger hears."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from compression import zstd

from tests.tuneplane_server.ingest.conftest import JOB, OTHER, Runner
from tests.tuneplane_server.ingest.wire_build import event, log, metric, ndjson, packed, sample
from tuneplane.contract.ingest import HeartbeatAnswer, IngestAnswer
from tuneplane.contract.words import MAX_BATCH_BYTES
from tuneplane_server.features.ingest import gate as gates
from tuneplane_server.features.ingest.tokens import LIFETIME
from tuneplane_server.features.telemetry.log_reader import LogQuery


async def until(holds):
    """Others run until it is so."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - what is waited for is a number, not an event
            await asyncio.sleep(0)


async def lines_of(console):
    page = await console.services.telemetry.logs.page(JOB, LogQuery(), live_attempt=None)
    return [line.text for line in page.lines]


async def audited(console):
    return [(row.action, row.target, row.data["why"]) for row in await console.services.audit.newest()]


async def test_a_batch_is_taken_once_and_answered_as_the_contract_says(runner, console):
    lines = [
        log(1, "a\n"),
        log(2, "b\n"),
        metric(1, [1.0, "NaN"]),
        sample(1, {"completion": "x"}),
        event(1, "checkpoint"),
    ]
    first, again = await runner.send(*lines), await runner.send(*lines)
    assert (first.status_code, again.status_code) == (200, 200)
    answer = IngestAnswer.model_validate(first.json())
    assert (answer.accepted, answer.duplicate) == (5, 0)
    assert answer.ack == {"1/0/log": 2, "1/0/metric": 1, "1/0/sample": 1, "1/0/event": 1}
    repeated = IngestAnswer.model_validate(again.json())
    assert (repeated.accepted, repeated.duplicate, repeated.ack) == (0, 5, answer.ack)
    assert await lines_of(console) == ["a", "b"]


@pytest.mark.parametrize(("encoding", "pack"), [("zstd", zstd.compress), ("identity", bytes), (None, bytes)])
async def test_every_encoding(runner, console, encoding, pack):
    answer = await runner.raw(pack(ndjson(log(1, "a\n"))), encoding)
    assert answer.status_code == 200
    assert await lines_of(console) == ["a"]


async def test_an_empty_batch_is_fine(runner):
    answer = await runner.raw(b"", None)
    assert answer.json() == {"accepted": 0, "duplicate": 0, "ack": {}}


async def test_a_malformed_line_refuses_the_whole_batch_and_is_named(runner, console):
    answer = await runner.raw(ndjson(log(1, "a\n")) + b'{"stream": "log"}\n' + ndjson(log(2, "b\n")))
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["code"] == "request-invalid"
    assert problem["detail"].startswith("line 2: ")
    assert problem["refusals"][0]["line"] == 2
    assert await lines_of(console) == []


@pytest.mark.parametrize(
    ("body", "encoding", "status", "code"),
    [
        (b"x", "br", 415, "media-type"),
        (b"not gzip", "gzip", 400, "request-invalid"),
        (packed(log(1, "a\n"))[:-4], "gzip", 400, "request-invalid"),
        (zstd.compress(b"\n" * (MAX_BATCH_BYTES + 1)), "zstd", 413, "too-large"),
        (b"\n" * (MAX_BATCH_BYTES + 1), None, 413, "too-large"),
        (packed(*(log(seq, "") for seq in range(1, 5002))), "gzip", 413, "too-large"),
    ],
    ids=["encoding", "no archive", "cut off", "bomb", "body", "records"],
)
async def test_what_is_refused_for_good_says_so(runner, body, encoding, status, code):
    answer = await runner.raw(body, encoding)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert "retry-after" not in answer.headers


async def test_a_large_body_without_a_length_is_refused_while_it_arrives(runner):
    async def endless():
        for _part in range(1000):
            yield b"\n" * 65536

    answer = await runner.raw(endless())
    assert (answer.status_code, answer.json()["code"]) == (413, "too-large")


@pytest.mark.parametrize(
    "token", [None, "", "tpi_", "tpi_x_y", "tp_user", "tpi_0000000000000001_guess", "x" * 5000, "tpi_a\0b_c"]
)
async def test_a_token_nobody_has_is_401(client, runner, token):
    answer = await Runner(client, token).send(log(1, "a\n"))
    assert (answer.status_code, answer.json()["code"]) == (401, "token-invalid")


async def test_a_token_of_another_run_is_403_and_audited_once(client, runner, console):
    for _time in range(3):
        answer = await replace(runner, job=OTHER).send(log(1, "a\n"))
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert (await replace(runner, job=OTHER).beat()).status_code == 403
    assert await audited(console) == [("ingest.refuse", OTHER, "foreign")]
    assert await lines_of(console) == []


async def test_records_of_another_attempt_are_403_and_audited(runner, console):
    answer = await runner.send(log(1, "a\n"), log(1, "b\n", attempt=2))
    assert answer.status_code == 403
    assert answer.json()["refusals"][0]["line"] == 2
    assert (await runner.beat(attempt=2)).status_code == 403
    assert await audited(console) == [("ingest.refuse", JOB, "foreign-attempt")]
    assert await lines_of(console) == []


async def test_a_revoked_token_is_403_and_others_go_on(client, runner, console):
    second = Runner(client, await console.services.ingest.issue(JOB, 2))
    await console.services.ingest.revoke(JOB, 1)
    assert (await runner.send(log(1, "a\n"))).status_code == 403
    assert (await second.send(log(1, "b\n", attempt=2))).status_code == 200
    await console.services.ingest.revoke(JOB)
    assert (await second.send(log(2, "b\n", attempt=2))).status_code == 403
    assert [row[2] for row in await audited(console)] == ["revoked", "revoked"]


async def test_a_token_is_renewed_by_heartbeats_in_its_second_half_and_then_expires(client, runner, console):
    first = HeartbeatAnswer.model_validate((await runner.beat()).json())
    assert first.token is None
    console.time.pass_(LIFETIME.total_seconds() / 2 + 1)
    renewed = HeartbeatAnswer.model_validate((await runner.beat()).json()).token
    assert renewed is not None
    newer = Runner(client, renewed)
    assert (await runner.send(log(1, "a\n"))).status_code == 200
    assert (await newer.send(log(2, "b\n"))).status_code == 200
    console.time.pass_(LIFETIME.total_seconds() / 2)
    assert (await runner.send(log(3, "c\n"))).status_code == 401
    assert (await newer.send(log(3, "c\n"))).status_code == 200
    assert (await newer.beat()).json()["token"] != renewed


async def test_a_token_is_kept_only_as_its_digest(runner, console):
    from sqlalchemy import select

    from tuneplane_server.features.ingest.tables import IngestTokenRow

    async with console.services.database.session() as session:
        row = (await session.scalars(select(IngestTokenRow))).one()
    secret = runner.token.rsplit("_", 1)[1] if runner.token.count("_") == 2 else runner.token.split("_", 2)[2]
    assert len(row.digest) == 64
    assert secret not in repr({column.name: getattr(row, column.name) for column in row.__table__.columns})


async def test_heartbeats_are_kept_by_machine(runner, console):
    before = console.time.now
    await runner.beat(rank=0, state="preparing", time=5.0)
    await runner.beat(rank=1, state="running", time=6.0)
    await runner.beat(rank=0, state="running", time=7.0)
    heard = await console.services.ingest.heard(JOB, 1)
    assert [(beat.rank, beat.state, beat.sent_at) for beat in heard] == [(0, "running", 7.0), (1, "running", 6.0)]
    assert await console.services.ingest.last_heard(JOB, 1) > before
    assert await console.services.ingest.last_heard(JOB, 2) is None
    assert (await runner.raw(b"{}", path="heartbeat")).status_code == 400


class Heard:
    """A jobs feature that writes down what it hears."""

    def __init__(self):
        self.calls = []
        self.desired = "run"

    async def trainer_started(self, job_id, attempt, rank, data):
        self.calls.append(("started", job_id, attempt, rank, data))

    async def outcome(self, job_id, attempt, rank, outcome):
        self.calls.append(("outcome", job_id, attempt, rank, outcome))

    async def heartbeat(self, job_id, attempt, rank, state, received_at):
        self.calls.append(("heartbeat", job_id, attempt, rank, state))
        return self.desired

    async def reported(self, job_id, attempt, rank, event, data):
        if data.get("fail"):
            raise RuntimeError("the ledger stumbled")
        self.calls.append((event, job_id, attempt, rank, data))


async def test_the_ledger_hears_of_events_once_and_of_every_heartbeat(runner, console):
    heard = Heard()
    console.services.ingest.listen(heard)
    lines = [
        event(1, "trainer-started", {"pid": 7}),
        event(2, "hyperparams", {"lr": 1}),
        event(3, "checkpoint", {"step": 4}),
        event(4, "outcome", {"result": "succeeded"}),
    ]
    for _time in range(2):
        assert (await runner.send(*lines)).status_code == 200
    assert heard.calls == [
        ("started", JOB, 1, 0, {"pid": 7}),
        ("checkpoint", JOB, 1, 0, {"step": 4}),
        ("outcome", JOB, 1, 0, {"result": "succeeded"}),
    ]
    heard.desired = "cancel"
    assert (await runner.beat(rank=2)).json() == {"desired": "cancel"}
    assert heard.calls[-1] == ("heartbeat", JOB, 1, 2, "running")


async def test_a_stumbling_ledger_does_not_make_the_runner_send_again(runner, console):
    heard = Heard()
    console.services.ingest.listen(heard)
    answer = await runner.send(event(1, "warning", {"fail": True}), event(2, "warning", {"fail": False}))
    assert answer.json()["accepted"] == 2
    assert [call[4] for call in heard.calls] == [{"fail": False}]


async def test_too_many_batches_of_one_run_are_429_and_the_neighbour_is_served(client, runner, console, monkeypatch):
    neighbour = Runner(client, await console.services.ingest.issue(OTHER, 1), OTHER)
    gate = gates.Gate(waiting_per_run=2)
    console.services.ingest.gate = gate
    async with gate.turn(JOB):
        waiting = asyncio.create_task(runner.send(log(1, "a\n")))
        await until(lambda: gate._runs[JOB].inside == 2)
        refused = await runner.send(log(2, "b\n"))
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["code"] == "too-many-requests"
        assert (await neighbour.send(log(1, "n\n"))).status_code == 200
    assert (await waiting).status_code == 200
    assert gate._runs == {}


async def test_a_busy_console_says_503_instead_of_holding_the_runner(runner, console, monkeypatch):
    monkeypatch.setattr(gates, "WAIT_SECONDS", 0.01)
    gate = gates.Gate(decoding=1)
    console.services.ingest.gate = gate
    async with gate.decoding():
        answer = await runner.send(log(1, "a\n"))
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert int(answer.headers["retry-after"]) >= 1
    assert (await runner.send(log(1, "a\n"))).json()["accepted"] == 1


async def test_a_body_that_does_not_come_is_given_up(runner, monkeypatch):
    from tuneplane_server.features.ingest import api

    monkeypatch.setattr(api, "BODY_SECONDS", 0.01)
    never = asyncio.Event()

    async def stuck():
        yield b"{"
        await never.wait()

    answer = await runner.raw(stuck())
    assert (answer.status_code, answer.json()["code"]) == (408, "request-timeout")


async def test_a_dashboard_beside_writers_never_sees_a_locked_database(client, console):
    """Scenario 19, small: eight runs send at the same time, two readers look all the while."""
    jobs = [f"000000000000001{n}" for n in range(8)]
    senders = [Runner(client, await console.services.ingest.issue(job, 1), job) for job in jobs]
    sending = True
    looks = 0

    async def send(sender):
        for seq in range(1, 13):
            answer = await sender.send(log(seq, f"{seq}\n"), metric(seq, [float(seq)] * 20), event(seq, "checkpoint"))
            assert answer.status_code == 200
            assert (await sender.beat()).status_code == 200

    async def look():
        nonlocal looks
        telemetry = console.services.telemetry
        while sending:
            latest = await telemetry.latest_of(jobs)
            for job in jobs:
                await telemetry.logs.page(job, LogQuery(tail=10), live_attempt=1)
                await telemetry.curves.curves(job, list(latest[job]), max_points=100, attempt=None, rank=0)
            looks += 1

    readers = [asyncio.create_task(look()) for _reader in range(2)]
    await asyncio.gather(*(send(sender) for sender in senders))
    sending = False
    await asyncio.gather(*readers)
    assert looks > 0
    for job in jobs:
        page = await console.services.telemetry.logs.page(job, LogQuery(), live_attempt=None)
        assert [line.text for line in page.lines] == [str(seq) for seq in range(1, 13)]
