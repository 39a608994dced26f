"""What settled uses come to this UTC day and month, kept between two looks: a use that has ended does not change any more.

Who asks adds the live ones and those that ended lately, which are read each time. Whatever happens here can be thrown away:
it follows from the rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.domain.quotas import NOTHING_SETTLED, Period, Scope, Settled, Use, day_of, month_of, use_in
from tuneplane_server.features.hardware.service import HardwareService

# A use that ended before this is in the table for whoever looks: no transaction takes so long, and no clock of another
# console may be off by so much.
IN_FLIGHT = timedelta(minutes=10)
# How far the sums may lag behind that before they are carried on.
CARRIED_ON_AFTER = timedelta(minutes=2)

type Key = tuple[Scope, str]


@dataclass(frozen=True)
class Sums:
    """Of the uses that ended in this month and up to `until`, of every user and project. Later and live ones are not in it."""

    until: datetime
    by_subject: Mapping[Key, Settled]

    def of(self, scope: Scope, subject_id: str) -> Settled:
        return self.by_subject.get((scope, subject_id), NOTHING_SETTLED)


class SettledUses:
    def __init__(self, hardware: HardwareService) -> None:
        self._hardware = hardware
        self._carrying = asyncio.Lock()
        self._known: tuple[Period, Sums] | None = None  # the day that they are of

    async def sums(self, session: AsyncSession, now: datetime) -> Sums:
        """As of a few minutes ago; what one call returned does not change under the hands of its caller."""
        async with self._carrying:
            day, month = day_of(now), month_of(now)
            sums = self._known[1] if self._known is not None and self._known[0] == day else Sums(month.start, {})
            target = max(month.start, now - IN_FLIGHT)
            if target - sums.until > CARRIED_ON_AFTER:
                sums = await self._carried_on(session, sums, target, now)
            self._known = (day, sums)
            return sums

    async def _carried_on(self, session: AsyncSession, sums: Sums, target: datetime, now: datetime) -> Sums:
        total = dict(sums.by_subject)
        day, month = day_of(now), month_of(now)
        async for owner, project, use in self._hardware.settled_uses(session, sums.until, target):
            of_day, of_month = _within(day, use, now), _within(month, use, now)
            keys: tuple[Key, Key] = (("user", owner), ("project", project))
            for key in keys:
                known = total.get(key, NOTHING_SETTLED)
                total[key] = Settled(known.day + of_day, known.month + of_month)
        return Sums(target, total)


def _within(period: Period, use: Use, now: datetime) -> float:
    return use_in(period.start, period.end, (use,), now)
