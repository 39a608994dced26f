"""No quotas and no drain."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.domain.queue import AccountKey
from tuneplane_server.domain.quotas import Account


class Unlimited:
    async def accounts(
        self, session: AsyncSession, owners: Collection[str], projects: Collection[str], now: datetime
    ) -> Mapping[AccountKey, Account]:
        return {}

    async def drained(self, session: AsyncSession) -> bool:
        return False
