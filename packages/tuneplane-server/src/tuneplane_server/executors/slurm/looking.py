"""Where an attempt's job is: in the listing that all looks share, in the accounting, or nowhere.

Hundreds of runs are looked at every other second: what slurmctld remembers is one question whoever asks. That a job is not there
counts only from an answer to a question that was asked after the look began.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from tuneplane_server.executors.slurm import states
from tuneplane_server.executors.slurm.handles import Attempt, Place, attempt_of, name_of, plain_user
from tuneplane_server.executors.slurm.pending import Places, places_of
from tuneplane_server.executors.slurm.rest.client import SlurmClient
from tuneplane_server.executors.slurm.rest.models import SlurmError, SlurmJob

log = structlog.get_logger(__name__)

KEPT_SECONDS = 1.5  # how old a listing may be that several look into
# Where listing all jobs of a large cluster takes long, it is done more rarely: for a fifth of the time at the most.
KEPT_SHARE, MOST_KEPT_SECONDS = 4.0, 30.0
AWAY_SECONDS = 2.0  # how long a Slurm that did not answer is not asked again by looks that can wait
ACCOUNTING_SECONDS = 15.0  # how often slurmdbd is asked for a job that it did not know
ACCOUNTING_AT_ONCE = 4
MINDED_SECONDS = 1800.0  # how long an absence is remembered, at least, that nobody asks about
CLOCKS_APART = timedelta(hours=1)  # of console and slurmctld, at the most

type Job = tuple[SlurmJob, ...]  # its components, leader first


@dataclass(frozen=True)
class Listing:
    """What slurmctld remembers. `asked`, `until`: monotonic times of the question and until when its answer is good for looks that
    need none of this moment. `jobs`: ours, by attempt, the oldest first. `places`: of everybody's jobs that wait."""

    asked: float
    until: float
    jobs: Mapping[Attempt, tuple[Job, ...]]
    places: Places
    error: SlurmError | None = None


@dataclass
class _Absence:
    """Since when a job is in no answer, when that was made sure of last, when somebody minded last, and when slurmdbd was asked for it
    last (monotonic)."""

    since: float
    sure: float
    minded: float
    accounting_asked: float = field(default=float("-inf"))


class Listings:
    """`user`: whose jobs are ours. `root`: of the storage, below which they start."""

    def __init__(self, client: SlurmClient, user: str, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self.root, self._clock = client, root, clock
        self._users = {"", plain_user(user)}  # Slurm names nobody whom its machines do not know
        self._kept: Listing | None = None
        self._asking: asyncio.Task[Listing] | None = None
        self._asked = self._changed = float("-inf")

    def now(self) -> float:
        return self._clock()

    def forget(self) -> None:
        """Something was changed: what is kept, and what is being asked, is of before."""
        self._kept, self._changed = None, self._clock()

    def also(self, user: str) -> None:
        """Slurm calls our user so: it was said of a job that is ours by its id."""
        if plain_user(user) not in self._users:
            log.warning("Slurm spells the user of our jobs otherwise than TUNEPLANE_SLURM_USER", user=user)
            self._users.add(plain_user(user))
            self.forget()

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            with suppress(asyncio.CancelledError):
                await self._asking

    async def get(self, *, after: float | None = None) -> Listing:
        """One of the last second, or, with `after`, one that was asked for at or after that monotonic time. Raises SlurmError."""
        kept = self._kept
        if kept is None or not self._serves(kept, after):
            kept = await self._shared(self._clock() if after is None else after)
        if kept.error is not None:
            raise kept.error
        return kept

    def _serves(self, kept: Listing, after: float | None) -> bool:
        return self._clock() <= kept.until if after is None else kept.asked >= after

    async def _shared(self, after: float) -> Listing:
        """Whoever comes while a question is on its way that was asked too early waits for the next one, together."""
        while True:
            if self._asking is None:
                self._asked = self._clock()
                self._asking = asyncio.create_task(self._ask(self._asked), name="jobs of Slurm")
            asking, asked = self._asking, self._asked
            listing = await asyncio.shield(asking)
            if asked >= after:
                return listing

    async def _ask(self, asked: float) -> Listing:
        try:
            found = await self._client.jobs(everyone=True)
            listing = self._sorted(asked, found)
        except SlurmError as error:
            now = self._clock()
            listing = Listing(now, now + AWAY_SECONDS, {}, {}, error)
        finally:
            self._asking = None
        if asked >= self._changed:
            self._kept = listing
        return listing

    def _sorted(self, asked: float, found: list[SlurmJob]) -> Listing:
        mine: dict[Attempt, list[SlurmJob]] = {}
        for job in found:
            if plain_user(job.user) in self._users and (key := attempt_of(job, self.root)) is not None:
                mine.setdefault(key, []).append(job)
        places = places_of(job for job in found if "PENDING" in job.states)
        now = self._clock()
        until = now + min(max(KEPT_SECONDS, KEPT_SHARE * (now - asked)), MOST_KEPT_SECONDS)
        return Listing(asked, until, {key: tuple(states.grouped(jobs)) for key, jobs in mine.items()}, places)


class Lookup:
    """Finds jobs, and remembers since when one is nowhere. `lost_after`: how long that must be so until it counts as gone."""

    def __init__(
        self,
        client: SlurmClient,
        listings: Listings,
        lost_after: timedelta,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._listings, self._clock = client, listings, clock
        self._lost_after = lost_after.total_seconds()
        self._absent: dict[Attempt, _Absence] = {}
        self._slots = asyncio.Semaphore(ACCOUNTING_AT_ONCE)

    async def jobs(self, place: Place, *, fresh: bool = False) -> tuple[Job, ...]:
        """The attempt's job, and others of the same attempt that should not be: the one that counts first. Empty: slurmctld does
        not know it now. Raises SlurmError."""
        begun = self._clock()
        listing = await self._listings.get(after=begun if fresh else None)
        found = listing.jobs.get(place.key, ())
        if not found and (fresh or self._must_be_sure(place, begun)):
            found = await self._made_sure(place, begun)
        if found:
            self._absent.pop(place.key, None)
        return tuple(sorted(found, key=lambda job: job[0].leader_id != place.slurm_id))

    async def one(self, place: Place, leader_id: int) -> Job | None:
        """This job of the attempt as of now; None when slurmctld does not know it. One small question, for whoever waits. With the id
        that Slurm gave it, its name says enough. Raises SlurmError."""
        job = tuple(await self._client.job(leader_id))
        if not job or job[0].name != name_of(*place.key):
            return None
        if attempt_of(job[0], self._listings.root) == place.key:
            self._listings.also(job[0].user)
        return job

    async def _made_sure(self, place: Place, begun: float) -> tuple[Job, ...]:
        """By a listing from after the look began, and by the job's own id: in a listing a site may have changed what marks it as ours."""
        found = (await self._listings.get(after=begun)).jobs.get(place.key, ())
        if not found and place.slurm_id is not None:
            job = await self.one(place, place.slurm_id)
            found = () if job is None else (job,)
        absence = self._absent.get(place.key)
        if absence is not None:
            absence.sure = begun
        return found

    def _must_be_sure(self, place: Place, now: float) -> bool:
        """That a job is missing is proved once, and once more when it is to count as gone; not at every look between."""
        absence = self._absent.get(place.key)
        return absence is None or now - absence.since >= self._lost_after

    async def accounted(self, place: Place, *, now: bool) -> Job | None:
        """What slurmdbd knows of an attempt's job that slurmctld has forgotten, when it knows how it ended. Without `now` it is not
        asked every time. Raises SlurmError."""
        absence, at = self._absent.get(place.key), self._clock()
        if absence is not None:
            if not now and at - absence.accounting_asked < min(ACCOUNTING_SECONDS, self._lost_after / 4):
                return None
            absence.accounting_asked = at
        job = await self._accounted(place, None)
        return job if job is not None and states.is_over(job) else None

    def absent(self, place: Place) -> float | None:
        """Note that the job is nowhere. None: for so long now that it is gone; else for how many seconds it must be so further."""
        now = self._clock()
        self._forget_unminded(now)
        absence = self._absent.setdefault(place.key, _Absence(now, now, now))
        absence.minded = now
        gone = absence.sure > absence.since and absence.sure - absence.since >= self._lost_after
        return None if gone else max(absence.since + self._lost_after - now, 0.0)

    def _forget_unminded(self, now: float) -> None:
        """Another console may have seen the end of a job. What was absent long ago says nothing of now."""
        kept = max(2 * self._lost_after, MINDED_SECONDS)
        for key in [key for key, absence in self._absent.items() if now - absence.minded > kept]:
            del self._absent[key]

    def forget(self, place: Place) -> None:
        self._absent.pop(place.key, None)

    async def found_by_name(self, job_id: str, attempt: int, since: float) -> Job | None:
        """The job of a submit nobody saw the answer of: the oldest that is called so and is not older than the first try (Unix
        seconds), by whoever knows it; the record of a refusal only when there is nothing else. Raises SlurmError."""
        earliest = datetime.fromtimestamp(since, UTC) - CLOCKS_APART
        place = Place(job_id, attempt)
        jobs = [job for job in await self.jobs(place, fresh=True) if _not_before(job, earliest)]
        return min(jobs, key=states.was_refused) if jobs else await self._accounted(place, earliest)

    async def _accounted(self, place: Place, since: datetime | None) -> Job | None:
        name = name_of(*place.key)
        async with self._slots:
            if place.slurm_id is not None:
                known = await self._client.accounted(job_id=place.slurm_id)
            else:
                known = await self._client.accounted(name=name, since=since)
        mine = [job for job in known or () if self._is_of(job, place)]
        groups = [job for job in states.grouped(mine) if since is None or _not_before(job, since)]
        return groups[-1] if groups else None

    def _is_of(self, job: SlurmJob, place: Place) -> bool:
        if place.slurm_id is not None and job.leader_id == place.slurm_id:
            return job.name == name_of(*place.key)
        return attempt_of(job, self._listings.root) == place.key


def _not_before(job: Job, earliest: datetime) -> bool:
    submitted = job[0].submitted_at
    return submitted is None or submitted >= earliest
