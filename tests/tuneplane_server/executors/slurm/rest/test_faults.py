"""What can go wrong between the client and Slurm, played by a server that does it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane_server.executors.slurm.rest import bodies
from tests.tuneplane_server.executors.slurm.rest.servers import Answering, Asked, Server, answers, send, server
from tests.tuneplane_server.executors.slurm.rest.test_submitting import GOOD
from tests.tuneplane_server.executors.slurm.rest.test_tokens import jwt
from tuneplane_server.executors.slurm.rest.client import SlurmClient
from tuneplane_server.executors.slurm.rest.models import SlurmError, SlurmVersionError

TOKEN = "header.secret-token.signature"
BAD_TOKEN = {"errors": [{"error_number": 1007, "error": "Protocol authentication error"}]}


async def hang_up(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """The server dies after it has read the request."""
    writer.transport.abort()


async def never(asked: Asked, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def endless(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{")
    while True:
        writer.write(b" " * 65536)
        await writer.drain()


async def half(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"jobs": [')
    await writer.drain()


async def trickle(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Never silent for long, never done."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


async def failing(
    given: dict[str, Any], call: Callable[[SlurmClient], Any], **options: Any
) -> tuple[SlurmError, Server]:
    async with server(answers(given)) as there:
        client = SlurmClient(there.url, "tester", TOKEN, connect_seconds=1, **options)
        with pytest.raises(SlurmError) as problem:
            await call(client)
        await client.close()
    assert "secret-token" not in str(problem.value)
    assert "hush" not in str(problem.value)
    return problem.value, there


def submit(client: SlurmClient) -> Any:
    return client.submit(GOOD)


@pytest.mark.parametrize(
    "answer",
    [
        hang_up,
        half,
        (503, b"Service Unavailable"),
        (502, b"<html>Bad Gateway</html>"),
        (500, {"errors": []}),
        (200, {"errors": [], "warnings": []}),  # 24.11, for a wrong type: nothing submitted, no word of it
        (200, {"errors": [], "job_id": 0}),
        (200, {"errors": [], "job_id": None}),
        (200, b"no json"),
        (200, b"[" * 100_000),
        (500, {"errors": [{"error_code": 5004, "error": "Socket timed out on send/recv operation"}]}),
        (500, {"errors": [{"error_number": 1802, "error": "receive failure"}]}),
        (500, {"errors": [{"error_number": -1, "error": "Unspecified error"}]}),
    ],
)
async def test_a_submit_without_a_clear_answer_may_have_happened(answer: Any) -> None:
    problem, there = await failing({"POST": answer}, submit)
    assert problem.kind == "unknown-outcome"
    assert len(there.of("POST", "/job/submit")) == 1  # and is never sent twice


@pytest.mark.parametrize(
    ("answer", "options"),
    [(never, {"total_seconds": 0.5}), (trickle, {"total_seconds": 0.5}), (endless, {"max_answer": 1 << 20})],
)
async def test_every_answer_is_bounded_in_time_and_size(answer: Answering, options: dict[str, Any]) -> None:
    problem, there = await failing({"POST": answer}, submit, **options)
    assert (problem.kind, len(there.of("POST", ""))) == ("unknown-outcome", 1)
    problem, _there = await failing({"GET /slurm/v0.0.42/jobs": answer}, lambda client: client.jobs(), **options)
    assert problem.kind == "unreachable"
    problem, _there = await failing({"DELETE": answer}, lambda client: client.cancel(7), **options)
    assert problem.kind == "unknown-outcome"


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        ((500, {"errors": [{"error_number": 2000, "error": "Invalid partition name specified"}]}), "refused", 2000),
        ((502, {"errors": [{"error_number": 1800, "error": "connect failure"}]}), "unreachable", 1800),
        ((511, BAD_TOKEN), "auth", 1007),
        ((401, b"Authentication failure"), "auth", None),
        ((404, b"Unable find requested URL"), "unreachable", None),
    ],
)
async def test_a_submit_that_surely_did_not_happen_says_so(answer: Any, kind: str, code: int | None) -> None:
    problem, _there = await failing({"POST": answer}, submit)
    assert (problem.kind, problem.code) == (kind, code)


@pytest.mark.parametrize(("status", "error"), [(200, 2042), (200, 2014), (500, 2015)])
async def test_a_job_with_an_id_is_there_whatever_is_said_beside_it(status: int, error: int) -> None:
    """`hold` of a plugin on 22.05, or limits that are not enforced at the submit: the job waits in the queue."""
    held = (status, {"job_id": 7, "errors": [{"error_code": error, "error": "Job is held"}]})
    async with server(answers({"POST": held})) as there:
        client = SlurmClient(there.url, "tester", TOKEN)
        assert await client.submit(GOOD) == 7
        await client.close()


async def test_nobody_at_the_address_means_nothing_was_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for url in (
        f"http://127.0.0.1:{port}",
        "http://no-such-host.invalid:6820",
        "http://127.0.0.1:notaport",
        "gopher://x",
    ):
        client = SlurmClient(url, "tester", TOKEN, connect_seconds=2)
        for call in (
            client.jobs,
            client.health,
            lambda each=client: each.submit(GOOD),
            lambda each=client: each.cancel(1),
        ):
            with pytest.raises(SlurmError) as problem:
                await call()
            assert problem.value.kind == "unreachable"
        await client.close()


async def test_a_password_in_the_address_is_not_told() -> None:
    client = SlurmClient("http://user:hush@127.0.0.1:1", "tester", TOKEN)
    with pytest.raises(SlurmError) as problem:
        await client.jobs()
    await client.close()
    assert "hush" not in str(problem.value)


@pytest.mark.parametrize(
    "objects", [{}, {"jobs": None}, {"jobs": [{}]}, {"jobs": [bodies.JOB_42, {"name": "x"}]}, {"jobs": [3]}]
)
async def test_one_odd_job_makes_the_list_unknown_and_not_shorter(objects: dict[str, Any]) -> None:
    problem, _there = await failing({"/jobs": (200, objects)}, lambda client: client.jobs())
    assert problem.kind == "unreachable"


async def test_a_question_is_asked_again_once_when_its_answer_is_cut_off() -> None:
    left = [hang_up, half]

    async def flaky(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if left:
            await left.pop()(asked, writer)
        else:
            await send(writer, 200, {"jobs": []})

    problem, there = await failing({"/jobs": flaky}, lambda client: client.jobs())
    assert problem.kind == "unreachable"
    assert len(there.of("GET", "/jobs")) == 2
    left.append(hang_up)
    async with server(answers({"/jobs": flaky})) as there:
        client = SlurmClient(there.url, "tester", TOKEN)
        assert await client.jobs() == []
        await client.close()


async def test_a_long_list_is_read_whole() -> None:
    many = [bodies.JOB_42 | {"job_id": number} for number in range(1, 700)]
    async with server(answers({"/jobs": (200, {"jobs": many})})) as there:
        client = SlurmClient(there.url, "tester", TOKEN)
        assert [job.id for job in await client.jobs(name="tp-a-1-0")] == list(range(1, 700))
        assert await client.jobs(name="tp-b-1-0") == []
        other = SlurmClient(there.url, "somebody", TOKEN)
        assert await other.jobs() == []
        assert len(await other.jobs(everyone=True)) == 699
        await client.close()
        await other.close()


async def test_a_token_that_was_renewed_meanwhile_is_tried_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")

    async def renew(asked: Asked, writer: asyncio.StreamWriter) -> None:
        accepted = asked.headers["x-slurm-user-token"] == "new"
        file.write_text("new")
        await send(writer, *((200, {"job_id": 9, "errors": []}) if accepted else (511, BAD_TOKEN)))

    async with server(answers({"POST": renew})) as there:
        client = SlurmClient(there.url, "tester", file)
        assert await client.submit(GOOD) == 9
        await client.close()
    sent = there.of("POST", "")
    assert [asked.headers["x-slurm-user-token"] for asked in sent] == ["old", "new"]
    assert {asked.headers["x-slurm-user-name"] for asked in sent} == {"tester"}
    assert sent[0].headers["content-type"] == "application/json"
    assert json.loads(sent[0].body)["job"]["name"] == "tp-a-1-0"


async def test_a_token_that_stays_bad_is_tried_once_and_its_end_told() -> None:
    ended = jwt({"exp": 1796036708})
    async with server(answers({"/jobs": (511, BAD_TOKEN)})) as there:
        client = SlurmClient(there.url, "tester", ended)
        with pytest.raises(SlurmError) as problem:
            await client.jobs()
        await client.close()
    assert (problem.value.kind, len(there.of("GET", "/jobs"))) == ("auth", 1)
    assert "2026-11-30 11:05:08 UTC" in str(problem.value)
    assert ended not in str(problem.value)


async def test_a_missing_token_file_is_told_and_nothing_sent(tmp_path: Path) -> None:
    async with server(answers({})) as there:
        client = SlurmClient(there.url, "tester", tmp_path / "nothing")
        with pytest.raises(SlurmError) as problem:
            await client.submit(GOOD)
        await client.close()
    assert problem.value.kind == "auth"
    assert str(tmp_path / "nothing") in str(problem.value)
    assert there.asked == []


async def test_only_unknown_versions_are_refused_naming_both_sides() -> None:
    unknown = {"paths": {"/slurm/v0.0.36/job/submit": {}, "/slurm/v0.0.99/job/submit": {}, "/slurm/v0.0.42/ping": {}}}
    problem, _there = await failing({"GET /openapi/v3": (200, unknown)}, submit)
    assert isinstance(problem, SlurmVersionError)
    assert (problem.kind, problem.offered) == ("version", ("v0.0.36", "v0.0.99"))
    assert "v0.0.99" in str(problem)
    assert "v0.0.45" in str(problem)
    assert "v0.0.38" in str(problem)


@pytest.mark.parametrize("document", [(404, b"no such address"), (200, {"paths": None}), (200, {})])
async def test_versions_are_asked_for_one_by_one_where_there_is_no_document(document: Any) -> None:
    given = {"GET /openapi/v3": document, "/slurm/v0.0.41/ping": (200, {"pings": []}), "/slurm/v0.0.40/ping": (511, {})}
    async with server(answers(given)) as there:
        client = SlurmClient(there.url, "tester", TOKEN)
        assert await client.discover() == "v0.0.41"
        await client.close()


async def test_a_document_that_cannot_be_had_now_is_not_an_answer() -> None:
    problem, _there = await failing({"GET /openapi/v3": (503, b"busy")}, submit)
    assert problem.kind == "unreachable"
    problem, _there = await failing({"GET /openapi/v3": (401, b"Authentication failure")}, submit)
    assert problem.kind == "auth"


async def test_a_server_that_was_upgraded_is_looked_at_again() -> None:
    given: dict[str, Any] = {"/slurm/v0.0.42/nodes": (200, {"nodes": [bodies.NODE_42]})}
    async with server(answers(given)) as there:
        client = SlurmClient(there.url, "tester", TOKEN)
        assert len(await client.nodes()) == 1
        given.clear()
        given["GET /openapi/v3"] = (200, {"paths": {"/slurm/v0.0.45/job/submit": {}}})
        given["/slurm/v0.0.45/nodes"] = (200, {"nodes": []})
        with pytest.raises(SlurmError) as problem:
            await client.nodes()
        assert problem.value.kind == "unreachable"
        assert await client.nodes() == []
        await client.close()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((404, b"Unable find requested URL"), None),
        ((500, {"errors": [{"error_number": 2002, "error": "Access/permission denied"}]}), None),
        ((200, {"jobs": [], "errors": [{"error_number": 9003, "error": "Nothing found with query"}]}), []),
        ((404, {"jobs": [], "errors": [{"error_number": 2017, "error": "Invalid job id specified"}]}), []),
        ((200, {"jobs": []}), []),
    ],
)
async def test_no_accounting_is_not_an_empty_one(answer: Any, expected: object) -> None:
    async with server(answers({"/slurmdb/": answer, "/slurm/v0.0.42/jobs": (200, {"jobs": []})})) as there:
        client = SlurmClient(there.url, "tester", TOKEN)
        assert await client.accounted(name="tp-a-1-0") == expected
        assert await client.accounted(job_id=7) == expected
        await client.jobs()
        await client.close()
    assert len(there.of("GET", "/openapi/v3")) == 1


async def test_an_accounting_that_is_away_is_not_an_empty_one() -> None:
    away = (200, {"jobs": [], "errors": [{"error_number": 7000, "error": "Unable to connect to database"}]})
    problem, _there = await failing({"/slurmdb/": away}, lambda client: client.accounted(job_id=7))
    assert (problem.kind, problem.code) == ("unreachable", 7000)


async def test_reissued_ids_and_other_peoples_jobs_are_kept_apart() -> None:
    found = [
        bodies.ACCOUNTED_42 | {"time": bodies.ACCOUNTED_42["time"] | {"submission": 1796037900}},
        bodies.ACCOUNTED_42,
        bodies.ACCOUNTED_42 | {"user": "somebody"},
    ]
    async with server(answers({"/slurmdb/": (200, {"jobs": found})})) as there:
        client = SlurmClient(there.url, "tester", TOKEN)
        jobs = await client.accounted(job_id=2)
        await client.close()
    assert jobs is not None
    assert [job.submitted_at.timestamp() for job in jobs if job.submitted_at] == [1796037805, 1796037900]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((200, {"errors": []}), None),
        ((500, {"errors": [{"error_number": 2021, "error": "Job/step already completing or completed"}]}), None),
        ((404, {"errors": [{"error_number": 2017, "error": "Invalid job id specified"}]}), "not-found"),
        ((500, {"errors": [{"error_number": 2002, "error": "Access/permission denied"}]}), "refused"),
        ((500, {"errors": [{"error_number": 1, "error": "Operation not permitted"}]}), "unknown-outcome"),
    ],
)
async def test_a_cancel_is_done_refused_or_unknown(answer: Any, kind: str | None) -> None:
    async with server(answers({"DELETE": answer})) as there:
        client = SlurmClient(there.url, "tester", TOKEN)
        seen = None
        try:
            await client.cancel(7)
        except SlurmError as problem:
            seen = problem.kind
        await client.close()
    assert seen == kind
    assert there.of("DELETE", "")[0].path == "/slurm/v0.0.42/job/7"


async def test_health_says_that_the_controller_is_away_and_that_a_token_is_bad() -> None:
    down = {"pings": [{"pinged": "DOWN", "responding": False}], "meta": {"slurm": {"release": "24.11.5"}}}
    away = {"errors": [{"error_number": 1800, "error": "connect failure"}], "meta": {"slurm": {"release": "24.11.5"}}}
    async with server(answers({"/ping": (200, down), "/partitions": (502, away)})) as there:
        client = SlurmClient(there.url, "tester", jwt({"exp": 1796036708}))
        health = await client.health()
        await client.close()
    assert (health.version, health.api, health.controllers_up) == ("24.11.5", "v0.0.42", False)
    assert health.token_expires_at is not None
    problem, _there = await failing(
        {"/ping": (200, down), "/partitions": (511, BAD_TOKEN)}, lambda client: client.health()
    )
    assert problem.kind == "auth"


async def test_an_authority_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    client = SlurmClient("https://127.0.0.1:1", "tester", TOKEN, ca_file=tmp_path / "ca.pem")
    with pytest.raises(SlurmError, match=r"ca\.pem") as problem:
        await client.jobs()
    assert problem.value.kind == "unreachable"
