"""A project comes to be with its first submission; its name is unique for its owner."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane.i18n import _
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.projects import repo
from tuneplane_server.features.projects.tables import ProjectRow
from tuneplane_server.web.problems import not_found


class ProjectService:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    async def get_or_create(self, session: AsyncSession, principal: Principal, name: str) -> ProjectRow:
        """The caller's project `name`, made in the running transaction if need be. `name` is a checked segment."""
        found = await repo.by_name(session, principal.user_id, name)
        if found is not None:
            return found
        row = ProjectRow(
            id=self._clock.new_id(),
            owner_id=principal.user_id,
            owner=principal.username,
            name=name,
            created_at=self._clock.now(),
        )
        try:
            async with session.begin_nested():
                session.add(row)
        except IntegrityError:  # another submission made it a moment ago
            found = await repo.by_name(session, principal.user_id, name)
            assert found is not None
            return found
        return row

    async def find(self, owner: str, name: str) -> ProjectRow | None:
        """The project `name` of the user `owner`."""
        async with self._database.session() as session:
            return await repo.by_owner_name(session, owner, name)

    async def get(self, principal: Principal, owner: str, name: str) -> ProjectRow:
        """The project, if it is the caller's to see; `not-found` otherwise, which does not tell whether it exists."""
        row = await self.find(owner, name)
        if row is None or (row.owner_id != principal.user_id and not principal.acts_as_admin):
            raise not_found(
                _("there is no project {owner}/{name}").format(owner=owner[:63], name=name[:63]),
                _("a project comes to be with its first submission"),
            )
        return row

    async def names(self, session: AsyncSession, project_ids: Collection[str]) -> dict[str, str]:
        """Id -> `<owner>/<project>` of those that exist, in the running transaction."""
        return await repo.names(session, project_ids)

    async def list(self, principal: Principal) -> Sequence[ProjectRow]:
        """The caller's projects; all of them for an administrator."""
        async with self._database.session() as session:
            return await repo.of_owner(session, None if principal.acts_as_admin else principal.user_id)
