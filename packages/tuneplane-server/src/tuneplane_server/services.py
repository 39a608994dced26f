"""Everything an endpoint may use, built once by `create_app` and reached through `request.app.state.services`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from tuneplane_server.clock import SYSTEM_CLOCK, Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.features.accounts.service import AccountService
from tuneplane_server.features.accounts.sessions import SessionSigner, load_key
from tuneplane_server.features.audit.service import AuditService
from tuneplane_server.settings import Settings
from tuneplane_server.wakeups import Wakeups


@dataclass
class Services:
    """The features' services, each made on first use and kept."""

    settings: Settings
    clock: Clock = SYSTEM_CLOCK
    # The port the console really listens on, once it does; `port: 0` in the settings leaves it open.
    bound_port: int | None = None

    @property
    def public_address(self) -> str:
        return self._settings_with_port.public_address

    @property
    def ingest_address(self) -> str:
        return self._settings_with_port.ingest_address

    @property
    def _settings_with_port(self) -> Settings:
        return self.settings if self.bound_port is None else self.settings.with_values(port=self.bound_port)

    @cached_property
    def database(self) -> Database:
        return Database(self.settings.database)

    @cached_property
    def wakeups(self) -> Wakeups:
        return Wakeups()

    @cached_property
    def audit(self) -> AuditService:
        return AuditService(self.database, self.clock)

    @cached_property
    def accounts(self) -> AccountService:
        secret = self.settings.web_jwt_secret
        key = load_key(secret.get_secret_value() if secret else None, self.settings.state_dir / "session.key")
        lifetime = timedelta(hours=self.settings.session_hours)
        return AccountService(self.database, self.clock, SessionSigner(key, lifetime), self.audit)
