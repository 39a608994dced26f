"""A token that is good is remembered for a moment, and never longer than it is good."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import event as sqlalchemy_event

from tests.tuneplane_server.ingest.conftest import JOB
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.features.ingest import tokens as module
from tuneplane_server.features.ingest.tokens import Denied, Grant, IngestTokens


class Time:
    def __init__(self) -> None:
        self.now, self.monotonic = datetime(2026, 1, 1, tzinfo=UTC), 0.0


@pytest.fixture
def time(monkeypatch):
    one = Time()
    monkeypatch.setattr(module, "monotonic", lambda: one.monotonic)
    return one


@pytest.fixture
def tokens(database, time):
    return IngestTokens(database, Clock(now=lambda: time.now))


async def test_a_good_token_is_looked_up_once_in_a_few_seconds(tokens, database, time):
    token = await tokens.issue(JOB, 1)
    statements = []
    engine = database._reader.sync_engine
    sqlalchemy_event.listen(engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
    assert [(await tokens.check(token)).job_id for _time in range(5)] == [JOB] * 5
    assert len([one for one in statements if "ingest_tokens" in one]) == 1
    time.monotonic += module.REMEMBER_SECONDS
    assert isinstance(await tokens.check(token), Grant)
    assert len([one for one in statements if "ingest_tokens" in one]) == 2


async def test_what_is_revoked_here_is_refused_at_once(tokens):
    token, other = await tokens.issue(JOB, 1), await tokens.issue(JOB, 2)
    assert isinstance(await tokens.check(token), Grant)
    assert isinstance(await tokens.check(other), Grant)
    await tokens.revoke(JOB, 1)
    assert await tokens.check(token) == Denied("revoked", token.split("_")[1])
    assert isinstance(await tokens.check(other), Grant)


async def test_what_another_console_revokes_is_refused_within_seconds(tokens, migrated_url, time):
    token = await tokens.issue(JOB, 1)
    assert isinstance(await tokens.check(token), Grant)
    elsewhere = Database(migrated_url)
    await IngestTokens(elsewhere, Clock()).revoke(JOB)
    await elsewhere.close()
    time.monotonic += module.REMEMBER_SECONDS
    assert isinstance(await tokens.check(token), Denied)


async def test_a_token_that_is_revoked_while_it_is_looked_up_is_not_remembered(tokens, monkeypatch):
    token = await tokens.issue(JOB, 1)
    look_up = tokens._look_up

    async def slowly(text):
        found = await look_up(text)
        await tokens.revoke(JOB, 1)  # after the row was read, before the answer is remembered
        return found

    monkeypatch.setattr(tokens, "_look_up", slowly)
    await tokens.check(token)
    monkeypatch.undo()
    assert isinstance(await tokens.check(token), Denied)


async def test_an_expired_token_is_not_remembered_beyond_its_time(tokens, time):
    token = await tokens.issue(JOB, 1)
    assert isinstance(await tokens.check(token), Grant)
    time.now += module.LIFETIME + timedelta(seconds=1)
    assert isinstance(await tokens.check(token), Denied)
