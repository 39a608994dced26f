"""A Redis server for one test run: real server, nothing written to disk."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.services.packages import require_packages
from tests.services.ports import free_port
from tests.services.process import spawn, wait_ready
from tests.services.session import Service

DATABASES = 64  # one for each xdist worker


def start(home: Path) -> Service:
    require_packages("redis")
    port = free_port()
    log = home / "log"
    process = spawn(
        ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", str(home), "--save", "",
         "--appendonly", "no", "--databases", str(DATABASES), "--daemonize", "no"],
        log,
    )  # fmt: skip
    wait_ready(lambda: _answers(port), process, log, seconds=60)
    return Service(facts={"port": port}, processes=[process])


def send(port: int, database: int, *command: str) -> None:
    """One command over the plain protocol, so that the 3.12 environment needs no client library."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        reply = connection.makefile("rb")
        for line in (f"SELECT {database}", " ".join(command)):
            connection.sendall(line.encode() + b"\r\n")
            answer = reply.readline()
            if answer.startswith(b"-"):
                raise RuntimeError(f"redis refused {line!r}: {answer.decode().strip()}")


def _answers(port: int) -> bool:
    try:
        send(port, 0, "PING")
    except OSError:
        return False
    return True
