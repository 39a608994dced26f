"""What goes through a real Redis: wake-ups and rate limits of several replicas; and what happens while it is away."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.services import redis as redis_service
from tests.services.ports import free_port
from tests.services.process import ProcessId, spawn, wait_ready
from tuneplane_server import doctor
from tuneplane_server.clock import SYSTEM_CLOCK
from tuneplane_server.domain.findings import REDIS_AWAY
from tuneplane_server.features.accounts.limits import RateLimits
from tuneplane_server.findings import Findings
from tuneplane_server.redis_wakeups import RedisWakeups
from tuneplane_server.services import Services
from tuneplane_server.settings import SettingsError, load_settings
from tuneplane_server.web.problems import ProblemError

SECONDS = 60


@asynccontextmanager
async def replica(url: str) -> AsyncIterator[tuple[RedisWakeups, Findings]]:
    findings = Findings(SYSTEM_CLOCK)
    wakeups = RedisWakeups(url, findings)
    await wakeups.open()
    try:
        yield wakeups, findings
    finally:
        await wakeups.close()


async def heard(event: asyncio.Event) -> None:
    async with asyncio.timeout(SECONDS):
        await event.wait()


async def test_a_wake_up_reaches_every_replica(redis_url: str) -> None:
    async with replica(redis_url) as (first, _one), replica(redis_url) as (second, _two):
        await heard(first.connected)
        await heard(second.connected)
        with first.listen("launcher") as near, second.listen("launcher") as far, second.listen("other") as other:
            near.clear()
            first.notify("launcher", "job:x")
            assert near.is_set()  # here at once, whatever Redis does
            await heard(far)
            assert not other.is_set()


async def test_what_is_no_message_of_a_replica_wakes_nobody(redis_url: str) -> None:
    from redis.asyncio import Redis

    async with replica(redis_url) as (wakeups, findings), Redis.from_url(redis_url) as redis:
        await heard(wakeups.connected)
        with wakeups.listen("launcher") as event:
            for text in (
                "",
                "{",
                "[]",
                '{"from": "x"}',
                '{"from": "x", "topics": 7}',
                '{"from": "x", "topics": [7]}',
                b"\xff",
            ):
                await redis.publish(wakeups._channel, text)
            assert not event.is_set()
            await redis.publish(wakeups._channel, '{"from": "x", "topics": ["launcher"]}')
            await heard(event)
        assert findings.all() == []


async def test_the_channel_is_of_the_database_number() -> None:
    findings = Findings(SYSTEM_CLOCK)
    names = {RedisWakeups(f"redis://h{path}", findings)._channel for path in ("", "/", "/0", "/3")}
    assert names == {"tuneplane:0:wakeups", "tuneplane:3:wakeups"}


class Server:
    """A Redis of this test's own, which may be killed and started again on its port."""

    def __init__(self, folder: Path) -> None:
        self.port, self._folder = free_port(), folder
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.process: ProcessId | None = None

    def start(self) -> None:
        log = self._folder / "redis.log"
        given = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        self.process = spawn(["redis-server", *given, "--dir", str(self._folder)], log)
        wait_ready(lambda: redis_service._answers(self.port), self.process, log, seconds=60)

    def kill(self) -> None:
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGKILL)
            os.waitpid(self.process.pid, 0)
            self.process = None


@pytest.fixture
def server(redis_url: str, tmp_path: Path) -> Iterator[Server]:
    """`redis_url` is asked for because it installs the server."""
    assert redis_url
    server = Server(tmp_path)
    server.start()
    yield server
    server.kill()


async def test_while_redis_is_away_it_is_said_and_afterwards_everybody_looks(server: Server) -> None:
    async with replica(server.url) as (wakeups, findings):
        await heard(wakeups.connected)
        with wakeups.listen("launcher") as event:
            server.kill()
            async with asyncio.timeout(SECONDS):
                while not findings.has(REDIS_AWAY):  # noqa: ASYNC110 - the other end is a process
                    await asyncio.sleep(0.05)
            assert not wakeups.connected.is_set()
            event.clear()
            wakeups.notify("launcher")
            assert event.is_set()
            event.clear()
            server.start()
            await heard(wakeups.connected)
            assert event.is_set()  # something may have been missed
        assert findings.all() == []


async def test_a_console_starts_without_its_redis() -> None:
    async with replica(f"redis://127.0.0.1:{free_port()}/0") as (wakeups, findings):
        async with asyncio.timeout(SECONDS):
            while not findings.has(REDIS_AWAY):  # noqa: ASYNC110 - it is a connection that fails
                await asyncio.sleep(0.05)
        assert not wakeups.connected.is_set()


async def tries(limits: RateLimits, count: int, key: str = "ada") -> int:
    """How many of so many tries were let through."""
    passed = 0
    for _number in range(count):
        try:
            await limits.check("sign-in-name", key)
        except ProblemError as problem:
            assert problem.code == "too-many-requests"  # noqa: PT017
            assert "Retry-After" in (problem.headers or {})  # noqa: PT017
        else:
            passed += 1
    return passed


async def test_replicas_count_tries_together(redis_url: str) -> None:
    first, second = RateLimits(redis_url), RateLimits(redis_url)
    assert await tries(first, 6) + await tries(second, 6) == 10
    assert await first.exhausted("sign-in-name", "ada")
    assert not await second.exhausted("sign-in-name", "grace")
    await first.close()
    await second.close()


async def test_while_redis_is_away_each_replica_counts_alone_and_locks_nobody_out(server: Server) -> None:
    limits = RateLimits(server.url)
    assert await tries(limits, 11) == 10
    server.kill()
    assert await tries(limits, 11) == 10
    await limits.close()


@pytest.mark.parametrize("url", ["localhost:6379", "http://redis", "redis://", "redis://h/x", "unix:///run/redis.sock"])
def test_an_address_that_is_no_redis_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(SettingsError, match="TUNEPLANE_REDIS_URL") as caught:
        load_settings({"TUNEPLANE_REDIS_URL": url})
    assert "rediss://" in str(caught.value)


async def test_the_doctor_says_whether_redis_answers(server: Server) -> None:
    services = Services(load_settings({"TUNEPLANE_REDIS_URL": server.url.replace("://", "://nobody:hunter2@")}))
    (refused,) = await doctor._redis(services)
    assert (refused.code, refused.level) == ("redis", "error")
    assert "hunter2" not in refused.detail + refused.text
    services = Services(load_settings({"TUNEPLANE_REDIS_URL": server.url}))
    assert [finding.level for finding in await doctor._redis(services)] == ["info"]
    server.kill()
    assert [finding.level for finding in await doctor._redis(services)] == ["error"]


def test_the_password_of_redis_is_never_shown() -> None:
    settings = load_settings({"TUNEPLANE_REDIS_URL": "rediss://:hunter2@redis.example.org:6380/3"})
    assert "hunter2" not in repr(settings) + str(settings.listing())
