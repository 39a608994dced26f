"""Ending jobs: what is to stop gets its grace, what should not be is cancelled, and only what Slurm says is over is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from enum import Enum
from pathlib import Path

import structlog

from tuneplane_server.clock import Clock
from tuneplane_server.executors.port import CleanupState, ExecutorUnreachableError
from tuneplane_server.executors.slurm import ending, states
from tuneplane_server.executors.slurm.earlier import Start, living_start, start_beside
from tuneplane_server.executors.slurm.errors import said
from tuneplane_server.executors.slurm.handles import Place
from tuneplane_server.executors.slurm.intents import (
    KILL_FILE,
    OVER_FILE,
    STOP_FILE,
    Intent,
    find_directory,
    first_time,
    read_intent,
    tail,
    time_of,
)
from tuneplane_server.executors.slurm.launching import SlurmLauncher, is_young
from tuneplane_server.executors.slurm.looking import Job, Listings, Lookup
from tuneplane_server.executors.slurm.rest.client import SlurmClient
from tuneplane_server.executors.slurm.rest.models import SlurmError
from tuneplane_server.executors.slurm.script.exits import STARTED_FILE
from tuneplane_server.executors.slurm.states import Stage

log = structlog.get_logger(__name__)

POLL_SECONDS = 1.0
# Whoever waits asks ever more rarely, up to so many times that: dozens wait at once, and slurmctld limits how often it is asked.
MOST_POLLS_APART, POLLS_TO_DOUBLE = 5.0, 4
# Beyond a grace: Slurm has one of its own between SIGTERM and SIGKILL (KillWait, 30 s as a rule), and clears up after that.
WAIT_SECONDS = 90.0
# After it has been told to end: a cleanup that takes longer is taken up again by whoever asked for it.
CLEANUP_SECONDS = 45.0


class End(Enum):
    """What became of jobs that were told to end. `FORGOTTEN`: slurmctld does not know one of them any more, which proves nothing."""

    OVER = "over"
    FORGOTTEN = "forgotten"
    NONE = "none"


class Clearing:
    def __init__(
        self,
        client: SlurmClient,
        listings: Listings,
        lookup: Lookup,
        root: Path,
        clock: Clock,
        launcher: SlurmLauncher,
        *,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._client, self.listings, self._lookup = client, listings, lookup
        self._root, self._clock, self._launcher = root, clock, launcher
        self.poll_seconds = poll_seconds
        self._beside: dict[int, asyncio.Task[None]] = {}

    async def close(self) -> None:
        for task in list(self._beside.values()):
            task.cancel()
        await asyncio.gather(*self._beside.values(), return_exceptions=True)

    # --- stop -------------------------------------------------------------------------------------------------------

    async def stop(self, place: Place, grace: timedelta) -> None:
        """Returns when Slurm says it is over, or knows nothing of it. Raises SlurmError, OSError, `ExecutorUnreachableError`."""
        job = await self._job(place)
        if job is None:
            return
        beside = await self._told_beside(place.directory, [job])
        if not states.is_over(job):
            await self._stop(place, job, grace, beside)
        if beside is not None and not await self._await_gone(beside, WAIT_SECONDS):
            text = "Slurm does not know that it runs; its runners were told to end, and still give signs of life"
            raise ExecutorUnreachableError(f"Slurm job {job[0].leader_id}: {text}")

    async def _stop(self, place: Place, job: Job, grace: timedelta, beside: Start | None) -> None:
        began = await self._since(place, STOP_FILE)
        left = max(0.0, min(began + grace.total_seconds() - self._now(), grace.total_seconds()))
        if states.stage_of(job) in (Stage.QUEUED, Stage.PREPARING, Stage.REQUEUED):
            if beside is not None:
                await self._await_gone(beside, left)
            await self._tell(self._client.cancel, job)
        else:
            await self._tell(lambda job_id: self._client.signal(job_id, "TERM"), job)
            if await self._await_end(place, [job], left) is not End.NONE:
                return
            await self._since(place, KILL_FILE)
            await self._tell(self._client.cancel, job)
        if await self._await_end(place, [job], WAIT_SECONDS) is End.NONE:
            raise ExecutorUnreachableError(f"Slurm job {job[0].leader_id} was told to end and is still there")

    async def _since(self, place: Place, file: str) -> float:
        """The time in the file; now, when its directory was removed: then nothing is remembered."""
        assert place.directory is not None
        now = self._now()
        try:
            return await asyncio.to_thread(first_time, place.directory, file, now)
        except FileNotFoundError:
            return now

    # --- cleanup ----------------------------------------------------------------------------------------------------

    async def cleanup(self, place: Place) -> CleanupState:
        """End what runs, and say whether it is proved that nothing does. Raises SlurmError, OSError."""
        if not await self._launcher.settle(place.key):
            return CleanupState.UNKNOWN  # what Slurm does not have yet, it may get
        directory, intent = await asyncio.to_thread(self._known, place)
        if place.slurm_id is None and intent is not None:
            place = replace(place, slurm_id=intent.slurm_id)  # where to look, besides by its name
        try:
            jobs = await self._lookup.jobs(place, fresh=True)
        except SlurmError:
            if place.slurm_id is None and (intent is None or intent.outcome == "not-submitted"):
                return CleanupState.CONFIRMED  # Slurm was never given it
            raise
        end = await self._end_all(place, directory, jobs) if jobs else End.FORGOTTEN
        if end is End.NONE:
            return CleanupState.PENDING
        state = CleanupState.CONFIRMED if end is End.OVER else await self._absent(place, directory, intent)
        if state is CleanupState.CONFIRMED:
            self._lookup.forget(place)
            await self._note_over(directory)
        return state

    def _known(self, place: Place) -> tuple[Path | None, Intent | None]:
        """Blocks. Raises OSError when the storage root is not there."""
        directory = place.directory or find_directory(self._root, place.job_id, place.attempt)
        return directory, None if directory is None else read_intent(directory)

    async def _end_all(self, place: Place, directory: Path | None, jobs: tuple[Job, ...]) -> End:
        beside = await self._told_beside(directory, jobs)
        alive = [job for job in jobs if not states.is_over(job)]
        for job in alive:
            await self._tell(self._client.cancel, job)
        end = await self._await_end(place, alive, CLEANUP_SECONDS) if alive else End.OVER
        if end is End.OVER and beside is not None and not await self._await_gone(beside, CLEANUP_SECONDS):
            return End.NONE
        return end

    async def _absent(self, place: Place, directory: Path | None, intent: Intent | None) -> CleanupState:
        """slurmctld does not know it."""
        if place.slurm_id is None and (intent is None or intent.outcome == "not-submitted"):
            return CleanupState.CONFIRMED
        if directory is not None and await asyncio.to_thread(time_of, directory, OVER_FILE) is not None:
            return CleanupState.CONFIRMED
        if intent is not None and intent.outcome == "unknown" and place.slurm_id is None:
            young = is_young(intent, self._now(), self._launcher.unknown_seconds)
            return CleanupState.UNKNOWN if young else CleanupState.CONFIRMED
        patience = self._lookup.absent(place)
        start = await asyncio.to_thread(living_start, directory, place.slurm_id)
        if start is not None:  # a slurmctld that lost its state does not know what runs
            await asyncio.to_thread(start.tell)
            return CleanupState.UNKNOWN
        if patience is None or await self._is_over_by_its_files(directory, intent):
            return CleanupState.CONFIRMED
        over = await self._lookup.accounted(place, now=True) is not None
        return CleanupState.CONFIRMED if over else CleanupState.UNKNOWN

    async def _is_over_by_its_files(self, directory: Path | None, intent: Intent | None) -> bool:
        """The batch script saw every machine end, and Slurm has forgotten the job: nothing of it runs."""
        if directory is None or intent is None or not intent.nodes:
            return False
        left = await asyncio.to_thread(ending.read_left, directory, len(intent.nodes))
        return len(left.exits) == len(intent.nodes) and not left.alive

    async def _note_over(self, directory: Path | None) -> None:
        if directory is None:
            return
        try:
            await asyncio.to_thread(first_time, directory, OVER_FILE, self._now())
        except OSError as error:  # Slurm's own word was enough; without the note it is asked again
            log.warning("it could not be noted that a job is over", directory=str(directory), why=str(error))

    # --- several jobs of one attempt --------------------------------------------------------------------------------

    async def only_one(self, place: Place, jobs: tuple[Job, ...]) -> Job:
        """The one that counts: the batch script lets one begin. Others are cancelled beside this."""
        if len(jobs) == 1 or place.directory is None:
            return jobs[0]
        began = (await asyncio.to_thread(tail, place.directory / STARTED_FILE, 64)).strip()
        chosen = next((job for job in jobs if str(job[0].leader_id) == began), jobs[0])
        for job in jobs:
            if job is not chosen and not states.is_over(job):
                log.warning("a second Slurm job of one attempt is cancelled", job=place.job_id, slurm=job[0].leader_id)
                self.cancel_beside(job)
        return chosen

    def cancel_beside(self, job: Job) -> None:
        """Without waiting for it; a later look sees it ended, or tells it again."""
        job_id = job[0].leader_id
        if job_id not in self._beside:
            task = asyncio.create_task(self._cancel_quietly(job_id), name=f"cancel {job_id}")
            self._beside[job_id] = task
            task.add_done_callback(lambda _done: self._beside.pop(job_id, None))

    async def _cancel_quietly(self, job_id: int) -> None:
        try:
            await self._client.cancel(job_id)
        except SlurmError as error:
            log.warning("a job could not be cancelled yet", slurm=job_id, why=said(error))
        finally:
            self.listings.forget()

    # --- a start that Slurm does not know -----------------------------------------------------------------------------

    async def _told_beside(self, directory: Path | None, jobs: Iterable[Job]) -> Start | None:
        """The start of one of these that lives beside what Slurm says of it; its runners have been told to stop."""
        for job in jobs:
            start = await asyncio.to_thread(start_beside, directory, job)
            if start is not None:
                log.warning("a start that Slurm does not know is told to stop", slurm=job[0].leader_id)
                await asyncio.to_thread(start.tell)
                return start
        return None

    async def _await_gone(self, start: Start, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    if await asyncio.to_thread(start.is_gone):
                        return True
                    await asyncio.sleep(self.poll_seconds)
        return await asyncio.to_thread(start.is_gone)

    # --- telling and waiting ----------------------------------------------------------------------------------------

    async def _job(self, place: Place) -> Job | None:
        jobs = await self._lookup.jobs(place, fresh=True)
        return await self.only_one(place, jobs) if jobs else None

    async def _tell(self, order: Callable[[int], Awaitable[None]], job: Job) -> None:
        """One whose outcome is not known is looked at like any other: what still runs is told again."""
        try:
            await order(job[0].leader_id)
        except SlurmError as error:
            if error.kind not in ("unknown-outcome", "not-found"):
                raise
        finally:
            self.listings.forget()

    async def _await_end(self, place: Place, jobs: Iterable[Job], seconds: float) -> End:
        """What Slurm says of these within that time."""
        waiting, forgotten, polls = [job[0].leader_id for job in jobs], False, 0
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while True:
                        found = {item: await self._lookup.one(place, item) for item in waiting}
                        forgotten = forgotten or None in found.values()
                        waiting = [item for item, job in found.items() if job is not None and not states.is_over(job)]
                        if not waiting:
                            return End.FORGOTTEN if forgotten else End.OVER
                        await asyncio.sleep(self.poll_seconds * polls_apart(polls))
                        polls += 1
            return End.NONE
        finally:
            self.listings.forget()

    def _now(self) -> float:
        return self._clock.now().timestamp()


def polls_apart(polls: int) -> float:
    """How many times the shortest pause is made after so many of them."""
    return min(1 + polls / POLLS_TO_DOUBLE, MOST_POLLS_APART)
