"""Runs the console under uvicorn: one process, one data directory, one port."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from collections.abc import Callable

import uvicorn
import uvloop
from fastapi import FastAPI

from tuneplane.i18n import _
from tuneplane_node.signalled_server import SignalledServer
from tuneplane_server.app import create_app, running
from tuneplane_server.executors.port import Executor
from tuneplane_server.instance import InstanceLock
from tuneplane_server.open_files import allow_open_files
from tuneplane_server.services import Services
from tuneplane_server.settings import Settings

# How long open requests may take to end after SIGTERM; live streams never end by themselves.
GRACE_SECONDS = 3
# How many more objects there must be than at the last look for garbage before it is looked for again. A page makes and drops some
# thousands, which need no collector: at Python's own figure (2,000) each page was interrupted once, and one in a hundred for long.
GARBAGE_AFTER = 10_000
# How long a thread keeps the interpreter from the event loop, and the loop from the threads of SQLite: at Python's own figure (5 ms) a
# page of a dozen statements waited for it longer than for its data.
SWITCH_SECONDS = 0.0005


def serve_console(settings: Settings, say: Callable[[str], None], *, executor: Executor | None = None) -> None:
    """Serve until a signal. Raises `AlreadyRunningError`, `OSError` (port taken), `SettingsError`, `NodeError` (no token that nodes
    could know it by) and what `Database` raises.

    `executor` replaces the one that the settings name (benchmarks).
    """
    lock = InstanceLock(settings.state_dir)
    lock.acquire()
    try:
        with _listen(settings.host, settings.port) as listener:
            if settings.executor == "agent":  # not of one that has children: they would have it, too
                allow_open_files()
            app = create_app(settings, executor=executor)
            services: Services = app.state.services
            services.agent_token, services.slurm  # noqa: B018 - refuse to start where something is needed and missing
            services.bound_port, services.instance_locked = listener.getsockname()[1], True
            server = SignalledServer(_config(app, settings))
            asyncio.run(_serve(server, listener, services, say), loop_factory=uvloop.new_event_loop)
    finally:
        lock.release()


def _config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",  # `_serve` opens and closes everything, so that what goes wrong at start has its own words
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=True,
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=30,
    )


async def _serve(
    server: SignalledServer, listener: socket.socket, services: Services, say: Callable[[str], None]
) -> None:
    async with running(services, roles=True):
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        accepting = asyncio.create_task(server.accepting.wait())
        await asyncio.wait((serving, accepting), return_when=asyncio.FIRST_COMPLETED)
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.freeze()  # modules and routes stay for good: without them a full collection stops the loop for a tenth of the time
        gc.set_threshold(GARBAGE_AFTER, *gc.get_threshold()[1:])
        gc.enable()
        if accepting.done():
            await _greet(services, say)
        accepting.cancel()
        await serving


async def _greet(services: Services, say: Callable[[str], None]) -> None:
    say(_("TunePlane console: {address}").format(address=services.public_address))
    if services.executor.capabilities().runtime == "process":
        say(_("Jobs run as plain processes: nothing is isolated. For development only."))
    token = await services.accounts.issue_setup_token()
    if token is not None:
        say(_("Set up the first administrator (the link works once):"))
        say(f"  {services.public_address}/setup?token={token}")


def _listen(host: str, port: int) -> socket.socket:
    """Bound before the roles start, so that the address given to jobs is the one that will answer."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise OSError(
            error.errno,
            _("the console cannot listen on {host}:{port}: {why}; choose another with --port").format(
                host=host, port=port, why=error.strerror
            ),
        ) from error
    listener.setblocking(False)
    return listener
