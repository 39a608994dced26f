"""A PostgreSQL cluster for one test run: real server, no durability, a fresh database for whoever asks."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.services.packages import require_packages
from tests.services.ports import free_port
from tests.services.process import ProcessId, ServiceMissingError
from tests.services.session import Service

COMMON = "-c max_connections=300 -c shared_buffers=128MB -c listen_addresses=127.0.0.1"
# The data does not outlive the run, so nothing waits for the disk.
SETTINGS = (
    f"{COMMON} -c fsync=off -c synchronous_commit=off -c full_page_writes=off "
    "-c wal_level=minimal -c max_wal_senders=0 -c max_wal_size=256MB"
)
# As it runs for real: a commit waits for the disk. For benchmarks.
DURABLE = COMMON
# A commit survives the death of the server, not of the machine.
CRASHING = f"{COMMON} -c fsync=off -c full_page_writes=off"
MEMORY = Path("/dev/shm")
ROOM = 4 << 30  # bytes free in memory; the data and its log need less than one


def start(home: Path, settings: str = SETTINGS) -> Service:
    require_packages("postgres")
    tools = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    data = home / "data"
    place = _in_memory() if settings == SETTINGS else None
    if place is None:
        data.mkdir(mode=0o700)
    else:
        data.symlink_to(place)
    home.chmod(0o755)
    if os.geteuid() == 0:  # the server refuses to run as root
        subprocess.run(["chown", "-R", "postgres:", str(home), str(place or data)], check=True)
    _as_postgres(tools / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N")
    port = free_port()
    options = f"-p {port} -c unix_socket_directories={home} {settings}"
    _as_postgres(tools / "pg_ctl", "-D", data, "-l", home / "log", "-w", "-t", "60", "-o", options, "start")
    pid = int((data / "postmaster.pid").read_text().splitlines()[0])
    return Service(
        facts={"host": "127.0.0.1", "port": port},
        processes=[ProcessId.of(pid)],
        # SIGTERM would wait for the clients to leave.
        before_stop=[_for_postgres(tools / "pg_ctl", "-D", data, "-m", "immediate", "-t", "30", "stop")],
        after_stop=[["rm", "-rf", str(place)]] if place else [],
    )


def _in_memory() -> Path | None:
    """A folder in memory, where there is room: a database is some three hundred files, and a disk would write out each test's."""
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < ROOM:
        return None
    return Path(tempfile.mkdtemp(prefix="tp-test-postgres-", dir=MEMORY))


def crash(home: Path) -> None:
    """End every process of the cluster in `home` at once, as a crash does, and start it again with the same options."""
    tools = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    data, log = home / "data", home / "log"
    _as_postgres(tools / "pg_ctl", "-D", data, "-l", log, "-m", "immediate", "-w", "-t", "60", "restart")


def create_database(port: int, name: str, template: str | None = None) -> None:
    """Create database `name`, empty or as a copy of `template`, which nobody may be connected to meanwhile."""
    import psycopg
    from psycopg import sql

    # Copying the files costs half of what logging each of their pages does.
    statement = sql.SQL("create database {} template {} strategy file_copy").format(
        sql.Identifier(name), sql.Identifier(template or "template0")
    )
    with psycopg.connect(_address(port), autocommit=True) as connection:
        connection.execute(statement)


def drop_database(port: int, name: str) -> None:
    """Drop database `name`, ending the connections that a test left open."""
    import psycopg
    from psycopg import sql

    with psycopg.connect(_address(port), autocommit=True) as connection:
        connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def _address(port: int) -> str:
    return f"host=127.0.0.1 port={port} user=postgres dbname=postgres connect_timeout=60"


def _as_postgres(*command: str | Path) -> None:
    argv = _for_postgres(*command)
    # pg_ctl's server inherits stderr, so a pipe would never close; a file does not mind.
    with tempfile.TemporaryFile("w+") as errors:
        result = subprocess.run(
            argv, check=False, timeout=120, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        )
        errors.seek(0)
        if result.returncode:
            raise ServiceMissingError(f"{Path(command[0]).name} failed: {errors.read().strip()[-1500:]}")


def _for_postgres(*command: str | Path) -> list[str]:
    argv = [str(part) for part in command]
    return ["runuser", "-u", "postgres", "--", *argv] if os.geteuid() == 0 else argv
