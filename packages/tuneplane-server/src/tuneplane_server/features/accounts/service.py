"""Rules of the accounts: set-up, sign-in, sessions, API tokens, device codes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane.contract.names import is_segment
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.features.accounts import repo, secrets
from tuneplane_server.features.accounts.limits import RateLimits
from tuneplane_server.features.accounts.passwords import Passwords, check_strength
from tuneplane_server.features.accounts.principal import READ, SCOPES, WRITE, Principal
from tuneplane_server.features.accounts.sessions import SessionSigner
from tuneplane_server.features.accounts.tables import ApiTokenRow, DeviceCodeRow, SetupTokenRow, UserRow
from tuneplane_server.features.audit.service import AuditEntry, AuditService
from tuneplane_server.web.problems import not_found, refused

log = structlog.get_logger(__name__)

MAX_TOKENS = 100  # live ones per user
DEFAULT_TOKEN_DAYS = 90
DEVICE_CODE_LIFETIME = timedelta(minutes=10)
DEVICE_POLL_SECONDS = 2
_TOUCH_EVERY = timedelta(minutes=5)  # `last used` need not be exact, and reads should stay reads


@dataclass(frozen=True)
class IssuedToken:
    """`secret` is shown once and kept nowhere."""

    id: str
    secret: str
    username: str


@dataclass(frozen=True)
class DeviceStart:
    device_code: str
    user_code: str
    expires_in: int
    interval: int


class AccountService:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        signer: SessionSigner,
        audit: AuditService,
        limits: RateLimits | None = None,
    ) -> None:
        self._database, self._clock, self._audit = database, clock, audit
        self.signer = signer
        self.limits = limits or RateLimits()
        self._passwords = Passwords()

    # --- set-up ---------------------------------------------------------------------------------------------------

    async def setup_needed(self) -> bool:
        """True until the first user exists."""
        async with self._database.session() as session:
            return not await repo.has_users(session)

    async def issue_setup_token(self) -> str | None:
        """A fresh one-time token (earlier ones stop counting); None when the console already has users."""
        secret = secrets.new_secret()
        async with self._database.begin() as session:
            if await repo.has_users(session):
                return None
            now = self._clock.now()
            session.add(SetupTokenRow(id=self._clock.new_id(), digest=secrets.digest(secret), created_at=now))
        return secret

    async def set_up(self, token: str, username: str, password: str, address: str) -> UserRow:
        """Make the first administrator. The token works once, and only while there are no users."""
        await self.limits.check("setup", address)
        async with self._database.session() as session:
            row = await repo.newest_setup_token(session)
        if row is None or row.used_at is not None or not secrets.matches(token, row.digest):
            raise refused(
                "token-invalid",
                _("this set-up link is not valid, or no longer"),
                _("print a new one on the console's machine: tuneplane-server setup-link"),
            )
        password_hash = await self._checked_hash(username, password)
        async with self._database.begin() as session:
            if await repo.has_users(session) or not await repo.use_setup_token(session, row.id, self._clock.now()):
                raise refused("conflict", _("this console is already set up"), _("sign in instead"))
            user = self._new_user(username, password_hash, admin=True)
            session.add(user)
            self._audit.record(session, AuditEntry(username, "account.setup", username, address))
        return user

    # --- users ----------------------------------------------------------------------------------------------------

    async def add_user(self, username: str, password: str | None, *, admin: bool, actor: str) -> UserRow:
        """A user; without a password only tokens sign them in. Raises `conflict` for a taken name."""
        password_hash = await self._checked_hash(username, password) if password is not None else None
        _check_username(username)
        user = self._new_user(username, password_hash, admin=admin)
        try:
            async with self._database.begin() as session:
                session.add(user)
                self._audit.record(session, AuditEntry(actor, "account.add", username, data={"admin": admin}))
        except IntegrityError:
            raise refused("conflict", _("the name “{name}” is taken").format(name=username)) from None
        return user

    async def user(self, username: str) -> UserRow:
        async with self._database.session() as session:
            user = await repo.user_by_name(session, username)
        if user is None:
            raise not_found(_("there is no user “{name}”").format(name=username))
        return user

    async def users(self) -> list[UserRow]:
        async with self._database.session() as session:
            return await repo.users(session)

    async def names(self, session: AsyncSession, user_ids: Collection[str]) -> dict[str, str]:
        """Id -> username of those that exist, in the running transaction."""
        return await repo.names(session, user_ids)

    async def administrators(self, session: AsyncSession) -> list[str]:
        """Names of the administrators who can sign in, in the running transaction."""
        return [user.username for user in await repo.users(session) if user.admin and user.disabled_at is None]

    async def set_disabled(self, username: str, *, disabled: bool, principal: Principal, address: str = "") -> UserRow:
        """Keep a user out, or let them in again; their tokens and sessions stop at once. What they run goes on.

        Refused for oneself, and for the last administrator; repeating it changes nothing.
        """
        async with self._database.begin() as session:
            user = await repo.user_by_name(session, username, lock=True)
            if user is None:
                raise not_found(_("there is no user “{name}”").format(name=username[:80]))
            if (user.disabled_at is not None) is disabled:
                return user
            if disabled:
                await self._check_dispensable(session, user, principal)
            user.disabled_at = self._clock.now() if disabled else None
            user.session_epoch += 1
            verb = "disable" if disabled else "enable"
            self._audit.record(session, AuditEntry(principal.username, f"account.{verb}", user.username, address))
        return user

    async def _check_dispensable(self, session: AsyncSession, user: UserRow, principal: Principal) -> None:
        if user.id == principal.user_id:
            message = _("you cannot disable your own account")
            raise refused("user-needed", message, _("another administrator can"), field="username")
        if user.admin and await self.administrators(session) == [user.username]:
            message = _("“{name}” is the only administrator").format(name=user.username)
            raise refused("user-needed", message, _("make another one first"), field="username")

    # --- sessions -------------------------------------------------------------------------------------------------

    async def sign_in(self, username: str, password: str, address: str) -> tuple[UserRow, str]:
        """(user, cookie value). The refusal never says whether the name or the password was wrong."""
        await self.limits.check("sign-in-address", address)
        await self.limits.check("sign-in-name", username.lower()[:100])
        async with self._database.session() as session:
            user = await repo.user_by_name(session, username) if is_segment(username) else None
        usable = user is not None and user.disabled_at is None
        stored = user.password_hash if user is not None and usable else None
        if not await self._passwords.verify(stored, password[: 4 * 1024]) or user is None:
            await self._audit.record_alone(AuditEntry(username[:63] or "-", "account.sign-in-refused", "-", address))
            raise refused("not-signed-in", _("the name or the password is wrong"))
        await self._audit.record_alone(AuditEntry(user.username, "account.sign-in", user.username, address))
        return user, self.signer.issue(user.id, user.session_epoch, self._clock.now())

    async def principal_of_session(self, cookie: str) -> Principal | None:
        session_data = self.signer.read(cookie, self._clock.now())
        if session_data is None:
            return None
        async with self._database.session() as session:
            user = await repo.user_by_id(session, session_data.user_id)
        if user is None or user.disabled_at is not None or user.session_epoch != session_data.epoch:
            return None
        return Principal(user.id, user.username, user.admin, frozenset(SCOPES), session_id=session_data.id)

    async def sign_out_everywhere(self, user_id: str) -> None:
        async with self._database.begin() as session:
            user = await repo.user_by_id(session, user_id)
            if user is not None:
                user.session_epoch += 1

    # --- API tokens -----------------------------------------------------------------------------------------------

    async def principal_of_token(self, secret: str) -> Principal | None:
        """The principal of an API token; None when it is unknown, revoked or expired."""
        digest, now = secrets.digest(secret), self._clock.now()
        async with self._database.session() as session:
            found = await repo.token_by_digest(session, digest)
        if found is None or not secrets.matches(secret, found[0].digest):
            return None
        token, user = found
        expired = token.expires_at is not None and token.expires_at <= now
        if token.revoked_at is not None or expired or user.disabled_at is not None:
            return None
        if token.last_used_at is None or now - token.last_used_at > _TOUCH_EVERY:
            await self._touch(token.id, now)
        return Principal(user.id, user.username, user.admin, frozenset(token.scopes), token_id=token.id)

    async def _touch(self, token_id: str, now: datetime) -> None:
        """Reading goes on while the database cannot be written."""
        try:
            async with self._database.begin() as session:
                await repo.touch_token(session, token_id, now)
        except SQLAlchemyError as error:
            log.warning("the use of a token was not noted", token=token_id, error=type(error).__name__)

    async def create_token(
        self, user: UserRow | Principal, name: str, scopes: list[str], expires_in_days: int | None, *, actor: str
    ) -> IssuedToken:
        """A new token with `scopes` of read, write, admin; without days it never expires."""
        user_id = user.user_id if isinstance(user, Principal) else user.id
        now = self._clock.now()
        expires = None if expires_in_days is None else now + timedelta(days=expires_in_days)
        async with self._database.begin() as session:
            issued = await self._add_token(session, user_id, user.username, name, scopes, expires)
            data = {"name": name, "scopes": scopes}
            self._audit.record(session, AuditEntry(actor, "token.create", issued.id, data=data))
        return issued

    async def tokens(self, principal: Principal) -> list[ApiTokenRow]:
        async with self._database.session() as session:
            return await repo.tokens_of(session, principal.user_id)

    async def token(self, principal: Principal) -> ApiTokenRow | None:
        """The token this request was made with; None for a browser session."""
        if principal.token_id is None:
            return None
        async with self._database.session() as session:
            return await session.get(ApiTokenRow, principal.token_id)

    async def revoke_token(self, principal: Principal, token_id: str) -> None:
        """Revoke one of the caller's own tokens; `not-found` when there is none."""
        async with self._database.begin() as session:
            if not await repo.revoke_token(session, principal.user_id, token_id, self._clock.now()):
                raise not_found(_("you have no such token"))
            self._audit.record(session, AuditEntry(principal.username, "token.revoke", token_id))

    # --- device codes (RFC 8628) ----------------------------------------------------------------------------------

    async def start_device(self, client: str, address: str) -> DeviceStart:
        await self.limits.check("device-start", address)
        secret, user_code, now = secrets.new_secret(), secrets.new_user_code(), self._clock.now()
        async with self._database.begin() as session:
            session.add(
                DeviceCodeRow(
                    id=self._clock.new_id(),
                    digest=secrets.digest(secret),
                    user_code=user_code,
                    client=client[:100],
                    created_at=now,
                    expires_at=now + DEVICE_CODE_LIFETIME,
                    approved=False,
                )
            )
        lifetime = int(DEVICE_CODE_LIFETIME.total_seconds())
        return DeviceStart(secret, user_code, lifetime, DEVICE_POLL_SECONDS)

    async def pending_device(self, principal: Principal, user_code: str) -> DeviceCodeRow:
        """The request behind a code a person typed; `not-found` when it is unknown, expired or decided."""
        await self.limits.check("device-guess", principal.user_id)
        async with self._database.session() as session:
            row = await repo.device_by_user_code(session, secrets.normal_user_code(user_code))
        if row is None or row.decided_at is not None or row.expires_at <= self._clock.now():
            raise not_found(_("no client waits with this code; it may have expired"))
        return row

    async def decide_device(self, principal: Principal, user_code: str, *, approved: bool) -> DeviceCodeRow:
        """The person says yes or no, once."""
        row = await self.pending_device(principal, user_code)
        async with self._database.begin() as session:
            if not await repo.decide_device(
                session, row.user_code, principal.user_id, approved=approved, now=self._clock.now()
            ):
                raise refused("conflict", _("this code was already answered"))
            verb = "device.approve" if approved else "device.refuse"
            self._audit.record(session, AuditEntry(principal.username, verb, row.id, data={"client": row.client}))
        return row

    async def collect_device(self, device_code: str, address: str) -> IssuedToken:
        """The token of an approved device code, once. Problems: `not-yet` while the person has not answered, else `token-invalid`."""
        await self.limits.check("device-poll", address)
        now = self._clock.now()
        async with self._database.session() as session:
            row = await repo.device_by_digest(session, secrets.digest(device_code))
        if row is None or row.expires_at <= now or row.consumed_at is not None:
            raise refused("token-invalid", _("this sign-in has expired"), _("run tp login again"), status=400)
        if row.decided_at is None:
            raise refused("not-yet", _("nobody has confirmed the code yet"), _("open the address and confirm the code"))
        if not row.approved or row.user_id is None:
            raise refused("token-invalid", _("the sign-in was refused in the browser"), status=400)
        async with self._database.begin() as session:
            user = await repo.user_by_id(session, row.user_id)
            if user is None or user.disabled_at is not None or not await repo.consume_device(session, row.id, now):
                raise refused("token-invalid", _("this sign-in has expired"), _("run tp login again"), status=400)
            expires = now + timedelta(days=DEFAULT_TOKEN_DAYS)
            scopes = list(SCOPES) if user.admin else [READ, WRITE]
            issued = await self._add_token(session, user.id, user.username, row.client or "tp", scopes, expires)
            self._audit.record(session, AuditEntry(user.username, "token.create", issued.id, address))
        return issued

    # --- helpers of the above -------------------------------------------------------------------------------------

    async def _add_token(
        self, session: AsyncSession, user_id: str, username: str, name: str, scopes: list[str], expires: datetime | None
    ) -> IssuedToken:
        unknown = sorted(set(scopes) - set(SCOPES))
        if unknown or not scopes:
            raise refused("request-invalid", _("scopes are read, write and admin"), field="scopes")
        if await repo.live_token_count(session, user_id) >= MAX_TOKENS:
            raise refused("quota", _("you have {count} tokens; revoke one first").format(count=MAX_TOKENS))
        secret = secrets.new_secret(secrets.API_TOKEN_PREFIX)
        row = ApiTokenRow(
            id=self._clock.new_id(),
            user_id=user_id,
            name=name,
            digest=secrets.digest(secret),
            scopes=sorted(set(scopes)),
            created_at=self._clock.now(),
            expires_at=expires,
        )
        session.add(row)
        return IssuedToken(row.id, secret, username)

    async def _checked_hash(self, username: str, password: str) -> str:
        _check_username(username)
        check_strength(password, username)
        return await self._passwords.hash(password)

    def _new_user(self, username: str, password_hash: str | None, *, admin: bool) -> UserRow:
        return UserRow(
            id=self._clock.new_id(),
            username=username,
            username_key=username.lower(),
            password_hash=password_hash,
            admin=admin,
            session_epoch=0,
            created_at=self._clock.now(),
        )


def _check_username(username: str) -> None:
    if is_segment(username):
        return
    raise RefusedError(
        [
            Refusal(
                "name-invalid",
                _("“{name}” cannot be a username").format(name=username[:80]),
                _("use 1 to 63 letters, digits, . _ - and begin with a letter or digit"),
                field="username",
            )
        ]
    )
