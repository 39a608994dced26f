"""Packages: streamed into the object store under their digest, which is checked while they come in."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

from sqlalchemy.exc import IntegrityError

from tuneplane.i18n import _
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.packages import repo
from tuneplane_server.storage.objects import ObjectStore, StoreUnavailableError
from tuneplane_server.web.problems import ProblemError, refused

_GZIP = b"\x1f\x8b"


def key_of(digest: str) -> str:
    return f"packages/{digest}"


class _MismatchError(Exception):
    """Raised inside the upload, so that the store throws away what it has."""

    def __init__(self, problem: ProblemError) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class PackageService:
    def __init__(self, database: Database, clock: Clock, store: ObjectStore, max_bytes: int) -> None:
        self._database, self._clock, self._store, self._max_bytes = database, clock, store, max_bytes

    async def has(self, principal: Principal, digest: str) -> bool:
        """Whether the package is here and the caller has once brought it; then it need not be sent again."""
        async with self._database.session() as session:
            if not await repo.may_use(session, digest, principal.user_id):
                return False
        return await self._store.size(key_of(digest)) is not None

    async def put(self, principal: Principal, digest: str, chunks: AsyncIterator[bytes]) -> int:
        """Store a package; returns its size. Raises `package-mismatch` when the bytes are not those of `digest`."""
        try:
            size = await self._store.put(key_of(digest), self._checked(digest, chunks))
        except _MismatchError as error:
            raise error.problem from None
        except StoreUnavailableError as error:
            raise _store_problem(error) from error
        await self._record(principal, digest, size)
        return size

    async def _record(self, principal: Principal, digest: str, size: int) -> None:
        for last_try in (False, True):
            try:
                async with self._database.begin() as session:
                    await repo.put(session, digest, principal.user_id, size, self._clock.now())
                return
            except IntegrityError:  # the same package came twice at once; now both rows are there
                if last_try:
                    raise

    async def _checked(self, digest: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        seen, size, head = hashlib.sha256(), 0, b""
        async for chunk in chunks:
            size += len(chunk)
            if size > self._max_bytes:
                raise _MismatchError(_too_large(self._max_bytes))
            if len(head) < len(_GZIP):
                head += chunk[: len(_GZIP)]
            seen.update(chunk)
            yield chunk
        if seen.hexdigest() != digest or not head.startswith(_GZIP):
            raise _MismatchError(
                refused(
                    "package-mismatch",
                    _("the package that arrived is not the one that was announced"),
                    _("send it again; a proxy between you and the console may have changed it"),
                )
            )


def _too_large(limit: int) -> ProblemError:
    return refused(
        "package-too-large",
        _("the package is larger than {limit} MiB").format(limit=limit // (1024 * 1024)),
        _(
            "exclude data and checkpoints with .gitignore or .tpignore, or raise TUNEPLANE_PACKAGE_MAX_MB on the console"
        ),
        status=413,
    )


def _store_problem(error: StoreUnavailableError) -> ProblemError:
    full = "space" in str(error).lower() or "quota" in str(error).lower()
    status, code = (507, "storage-full") if full else (503, "unavailable")
    detail = _("the console's store cannot take the package: {error}").format(error=str(error)[:500])
    return ProblemError(status, code, detail, headers={"Retry-After": "30"})
