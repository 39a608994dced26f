"""Wake-ups between console replicas, over Redis pub/sub. They stay hints: what is lost is found by polling.

Pub/sub knows no database numbers, so the channel carries the number of the URL: two installations that share a Redis server
and use different numbers do not wake each other.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import structlog

from tuneplane_server.domain.findings import REDIS_AWAY
from tuneplane_server.findings import Findings
from tuneplane_server.wakeups import Wakeups

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from redis.asyncio.client import PubSub

log = structlog.get_logger(__name__)

TIMEOUT_SECONDS = 5.0
GATHER_SECONDS = 0.02  # topics of one moment travel as one message
MOST_TOPICS = 500  # in one message; more than these wait for the next poll
BACKOFF_FIRST, BACKOFF_MOST = 0.5, 30.0


class RedisWakeups(Wakeups):
    """As `Wakeups`, and the other replicas hear it too. While Redis is away only this process does."""

    def __init__(self, url: str, findings: Findings) -> None:
        super().__init__()
        self._url, self._findings = url, findings
        self._channel = f"tuneplane:{urlsplit(url).path.strip('/') or '0'}:wakeups"
        self._me = secrets.token_hex(8)
        self._outgoing: dict[str, None] = {}
        self._more = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def notify(self, *topics: str) -> None:
        super().notify(*topics)
        if self.connected.is_set() and len(self._outgoing) < MOST_TOPICS:
            self._outgoing |= dict.fromkeys(topics)
            self._more.set()

    async def open(self) -> None:
        """Connect in the background: a console starts whether or not Redis is there."""
        self._tasks = [asyncio.create_task(self._stay_connected(), name="redis-wakeups")]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _stay_connected(self) -> None:
        from redis.exceptions import RedisError

        rest = BACKOFF_FIRST
        while True:
            redis = _client(self._url)
            try:
                await self._exchange(redis)
            except (RedisError, OSError, TimeoutError) as error:
                rest = BACKOFF_FIRST if self.connected.is_set() else min(rest * 2, BACKOFF_MOST)
                self.connected.clear()
                if self._findings.put(REDIS_AWAY):
                    log.warning("redis is away; polling goes on", error=type(error).__name__)
            finally:
                await _close(redis)
            await asyncio.sleep(rest)

    async def _exchange(self, redis: Redis) -> None:
        """Send and receive until something of it fails, which is raised."""
        async with redis.pubsub() as pubsub:
            await pubsub.subscribe(self._channel)
            self._connected()
            both = [asyncio.create_task(self._receive(pubsub)), asyncio.create_task(self._send(redis))]
            try:
                ended, _pending = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    task.result()
            finally:
                for task in both:
                    task.cancel()
                await asyncio.gather(*both, return_exceptions=True)

    def _connected(self) -> None:
        self.connected.set()
        if self._findings.clear(REDIS_AWAY):
            log.info("redis is back")
        self.wake_all()  # whatever was said while nobody listened

    async def _receive(self, pubsub: PubSub) -> None:
        while True:
            message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=TIMEOUT_SECONDS)
            if message is not None:
                super().notify(*self._topics(message["data"]))

    async def _send(self, redis: Redis) -> None:
        while True:
            await self._more.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._more.clear()
            topics, self._outgoing = list(self._outgoing), {}
            await redis.publish(self._channel, json.dumps({"from": self._me, "topics": topics}))

    def _topics(self, data: Any) -> list[str]:
        """What another replica says; nothing when it is our own word, or no message of ours."""
        try:
            message = json.loads(data)
            topics = message["topics"] if message["from"] != self._me else []
        except (ValueError, TypeError, KeyError):
            return []
        return [topic for topic in topics if isinstance(topic, str)] if isinstance(topics, list) else []


async def problem_of(url: str) -> str | None:
    """What keeps this Redis from being used, in its own words; None when it answers."""
    from redis.exceptions import RedisError

    redis = _client(url)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS * 2):
            await redis.execute_command("PING")
    except (RedisError, OSError, TimeoutError) as error:
        return str(error) or type(error).__name__
    finally:
        await _close(redis)
    return None


def _client(url: str) -> Redis:
    """One client for both directions: every wait is bounded, and a dead connection is found by a ping."""
    from redis.asyncio import Redis

    return Redis.from_url(
        url,
        socket_timeout=TIMEOUT_SECONDS * 2,
        socket_connect_timeout=TIMEOUT_SECONDS,
        health_check_interval=TIMEOUT_SECONDS,
        retry=None,
    )


async def _close(redis: Redis) -> None:
    from redis.exceptions import RedisError

    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await redis.aclose()
    except (RedisError, OSError, TimeoutError) as error:  # it is given up because it does not work
        log.debug("closing a connection to redis failed", error=type(error).__name__)
