"""Sessions that read, sessions that write, on both databases; and where SQLite is refused."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError, StatementError

from tuneplane_server.db import engine as engine_module
from tuneplane_server.db.engine import Database
from tuneplane_server.db.filesystems import NetworkFilesystemError, filesystem_of, refuse_network_filesystem
from tuneplane_server.features.accounts.tables import UserRow

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def user(name: str, created_at: datetime = NOW) -> UserRow:
    return UserRow(
        id=name.rjust(16, "0"), username=name, username_key=name, admin=False, session_epoch=0, created_at=created_at
    )


async def test_a_write_is_kept_and_a_failed_one_is_not(database: Database) -> None:
    async with database.begin() as session:
        session.add(user("ada"))

    async def fail_half_way() -> None:
        async with database.begin() as session:
            session.add(user("bob"))
            await session.flush()
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await fail_half_way()
    async with database.session() as session:
        assert list(await session.scalars(select(UserRow.username))) == ["ada"]


async def test_times_come_back_aware_in_utc_and_to_the_microsecond(database: Database) -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=8)))
    async with database.begin() as session:
        session.add(user("ada", elsewhere))
    async with database.session() as session:
        row = await session.scalar(select(UserRow))
    assert row is not None
    assert (row.created_at, row.created_at.tzinfo) == (NOW, UTC)


async def test_a_naive_time_is_refused(database: Database) -> None:
    with pytest.raises(StatementError, match="naive"):
        async with database.begin() as session:
            session.add(user("ada", NOW.replace(tzinfo=None)))


async def test_writers_wait_for_each_other_and_none_sees_a_locked_database(database: Database) -> None:
    async def write(number: int) -> None:
        async with database.begin() as session:
            session.add(user(f"u{number}"))
            await session.flush()
            await asyncio.sleep(0)

    async def read() -> None:
        for _time in range(20):
            async with database.session() as session:
                await session.execute(select(UserRow))

    await asyncio.gather(*(write(number) for number in range(30)), *(read() for _reader in range(8)))
    async with database.session() as session:
        assert len(list(await session.scalars(select(UserRow)))) == 30


async def test_who_writes_through_a_connection_of_their_own_takes_a_turn(database: Database) -> None:
    async def write() -> None:
        async with database.begin() as session:
            session.add(user("ada"))

    async def written() -> list[str]:
        async with database.session() as session:
            return list(await session.scalars(select(UserRow.username)))

    async with database.turn_to_write():
        writing = asyncio.create_task(write())
        if not database.is_sqlite:
            await writing  # Postgres has many writers: no turn keeps one waiting
        seen = [await written() for _look in range(20)]
    await writing
    assert seen == [[] if database.is_sqlite else ["ada"]] * 20
    assert await written() == ["ada"]


async def test_a_turn_is_given_up_by_who_fails(database: Database) -> None:
    with pytest.raises(RuntimeError, match="no"):
        async with database.turn_to_write():
            raise RuntimeError("no")
    async with asyncio.timeout(60), database.begin() as session:
        session.add(user("ada"))


async def test_foreign_keys_are_enforced(database: Database) -> None:
    columns, values = "id, owner_id, owner, name, created_at", "'p', 'nobody', 'x', 'y', '2026-01-01'"
    with pytest.raises(DBAPIError, match=r"(?i)foreign key"):
        await _execute(database, f"insert into projects ({columns}) values ({values})")


async def _execute(database: Database, statement: str) -> None:
    async with database.begin() as session:
        await session.execute(text(statement))


async def test_a_reading_session_of_sqlite_cannot_write(migrated_sqlite_url: str) -> None:
    database = Database(migrated_sqlite_url)
    try:
        async with database.session() as session:
            session.add(user("ada"))
            with pytest.raises(DBAPIError, match="readonly"):
                await session.flush()
    finally:
        await database.close()


async def test_a_console_that_is_paused_in_a_transaction_loses_its_locks_after_a_while(
    migrated_postgres_url: str,
) -> None:
    """Scenario 7: a paused replica must not hold rows for ever."""
    for more, limit in (("", "1min"), ("?options=-c%20lock_timeout%3D5s", "0")):
        database = Database(migrated_postgres_url + more)
        async with database.session() as session:
            assert await session.scalar(text("show idle_in_transaction_session_timeout")) == limit
        await database.close()


async def test_two_processes_may_write_one_sqlite_file(migrated_sqlite_url: str) -> None:
    databases = [Database(migrated_sqlite_url) for _process in range(2)]

    async def write(database: Database, start: int) -> None:
        for number in range(start, start + 20):
            async with database.begin() as session:
                session.add(user(f"u{number}"))

    await asyncio.gather(write(databases[0], 0), write(databases[1], 100))
    async with databases[0].session() as session:
        assert len(list(await session.scalars(select(UserRow)))) == 40
    for database in databases:
        await database.close()


# --- scenario 20 ------------------------------------------------------------------------------------------------------

MOUNTS = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:40 / /mnt/shared rw shared:1 - {kind} server:/export rw
31 30 8:2 / /mnt/shared/local\\040disk rw - xfs /dev/sdb1 rw
bad line
"""


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "lustre", "fuse.sshfs", "fuse", "ceph", "9p", "beegfs_nodev"])
def test_sqlite_is_refused_on_a_network_filesystem_with_the_way_out(kind: str) -> None:
    with pytest.raises(NetworkFilesystemError, match=r"TUNEPLANE_DATA_DIR.*TUNEPLANE_DATABASE_URL") as caught:
        refuse_network_filesystem(Path("/mnt/shared/data/tuneplane.db"), MOUNTS.format(kind=kind))
    assert kind in str(caught.value)


def test_sqlite_is_fine_on_a_local_disk_even_below_a_network_one() -> None:
    mounts = MOUNTS.format(kind="nfs4")
    refuse_network_filesystem(Path("/var/lib/tuneplane/tuneplane.db"), mounts)
    refuse_network_filesystem(Path("/mnt/shared/local disk/tuneplane.db"), mounts)
    assert filesystem_of(Path("/mnt/shared/x"), mounts) == "nfs4"
    assert filesystem_of(Path("/x"), "") == "unknown"


async def test_a_cancelled_writer_keeps_no_lock_even_while_its_exception_lives(database: Database) -> None:
    """At the end of a console its handlers are cancelled wherever they are; whoever writes next must not wait for them."""
    async with database.begin() as session:
        session.add_all([user(f"u{number}") for number in range(3)])

    async def write() -> None:
        async with database.begin() as session:
            for _time in range(50):
                await session.execute(text("update users set session_epoch = session_epoch + 1 returning id"))

    exceptions = []  # their frames hold the driver's cursors, and nothing collects them here
    for moment in range(30):
        task = asyncio.create_task(write())
        await asyncio.sleep(0.0005 * (moment % 7))
        task.cancel()
        if moment % 2:  # as a server cancels that gives up on a client
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        exceptions.append(caught.value)
        async with asyncio.timeout(60), database.begin() as session:
            await session.execute(text("update users set admin = true"))
    assert len(exceptions) == 30


async def test_a_reading_session_of_postgres_begins_no_transaction_and_sees_what_is_committed_meanwhile(
    migrated_postgres_url: str,
) -> None:
    database = Database(migrated_postgres_url)
    try:
        async with database.session() as session:
            first = await session.scalar(text("select now()"))  # of the transaction, where there is one
            async with database.begin() as writing:
                writing.add(user("ada"))
            assert list(await session.scalars(select(UserRow.username))) == ["ada"]
            assert await session.scalar(text("select now()")) != first
        async with database.begin() as session:  # the same connections write in transactions
            moments = {await session.scalar(text("select now()")) for _look in range(3)}
        assert len(moments) == 1
    finally:
        await database.close()


async def test_a_connection_that_the_server_ended_while_it_rested_is_not_handed_out(
    migrated_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, other = Database(migrated_postgres_url), Database(migrated_postgres_url)
    monkeypatch.setattr(engine_module, "RESTED_SECONDS", 3600.0)
    try:
        pids = [await _pid(database) for _time in range(3)]
        assert len(set(pids)) == 1  # the one used last comes first
        monkeypatch.setattr(engine_module, "RESTED_SECONDS", 0.0)
        async with other.begin() as session:
            await session.execute(text("select pg_terminate_backend(:pid, 10000)"), {"pid": pids[0]})
        assert await _pid(database) != pids[0]
    finally:
        await database.close()
        await other.close()


async def _pid(database: Database) -> int:
    async with database.session() as session:
        return (await session.execute(text("select pg_backend_pid()"))).scalar_one()
