"""What every service stands on, built on first use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tuneplane_server.clock import SYSTEM_CLOCK, Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.executors.port import Executor
from tuneplane_server.findings import Findings
from tuneplane_server.instance import instance_id
from tuneplane_server.meters import LoopLag, Meters
from tuneplane_server.settings import Settings
from tuneplane_server.storage.layout import StorageRoot
from tuneplane_server.storage.objects import ObStore, open_store
from tuneplane_server.storage.space import Space, space_of
from tuneplane_server.turns import Callers
from tuneplane_server.wakeups import Wakeups

if TYPE_CHECKING:
    from tuneplane_server.background.roles import BackgroundRoles
    from tuneplane_server.otel import OpenTelemetry


@dataclass
class Footing:
    """What the features' services stand on: settings, addresses, database, storage. `given_executor` replaces the executor that the settings name (tests)."""

    settings: Settings
    clock: Clock = SYSTEM_CLOCK
    given_executor: Executor | None = None
    # The port the console really listens on, once it does; `port: 0` in the settings leaves it open.
    bound_port: int | None = None
    # This process holds the lock of its data directory.
    instance_locked: bool = False
    # How much room is left on a disk; tests have disks of their own making.
    measure_space: Callable[[Path], Awaitable[Space | None]] = space_of
    # Set while background roles run in this process.
    running_roles: BackgroundRoles | None = None
    # Set when OTEL_* names a collector.
    opentelemetry: OpenTelemetry | None = None

    # --- addresses ------------------------------------------------------------------------------------------------

    @property
    def public_address(self) -> str:
        return self._with_port.public_address

    @property
    def ingest_address(self) -> str:
        return self._with_port.ingest_address

    def own_address(self) -> str:
        """The console as this machine itself reaches it, with no proxy between."""
        host = self.settings.host
        if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not bound
            host = "127.0.0.1"
        return f"http://{f'[{host}]' if ':' in host else host}:{self._with_port.port}"

    @property
    def _with_port(self) -> Settings:
        return self.settings if self.bound_port is None else self.settings.with_values(port=self.bound_port)

    # --- what everything stands on --------------------------------------------------------------------------------

    @cached_property
    def database(self) -> Database:
        return Database(self.settings.database)

    @cached_property
    def meters(self) -> Meters:
        return Meters()

    @cached_property
    def loop_lag(self) -> LoopLag:
        return LoopLag()

    @cached_property
    def callers(self) -> Callers:
        return Callers()

    @cached_property
    def findings(self) -> Findings:
        return Findings(self.clock)

    @cached_property
    def wakeups(self) -> Wakeups:
        if self.redis_url is None:
            return Wakeups()
        from tuneplane_server.redis_wakeups import RedisWakeups

        return RedisWakeups(self.redis_url, self.findings)

    @property
    def redis_url(self) -> str | None:
        url = self.settings.redis_url
        return None if url is None else url.get_secret_value()

    @cached_property
    def storage(self) -> StorageRoot:
        return StorageRoot(self.settings.storage_root)

    @cached_property
    def store(self) -> ObStore:
        return open_store(self.settings)

    @cached_property
    def instance(self) -> str:
        return instance_id(self.settings.state_dir)
