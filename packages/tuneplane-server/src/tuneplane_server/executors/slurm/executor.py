"""The executor `slurm`: an attempt is one Slurm job, asked for and ended through slurmrestd. What Slurm does not say is unknown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import structlog

from tuneplane_server.clock import Clock
from tuneplane_server.domain.classify import Exit
from tuneplane_server.executors.port import (
    Capabilities,
    CleanupState,
    ExecutorUnreachableError,
    Finding,
    Handle,
    LaunchPlan,
    NodeFigures,
    NodeInfo,
    Observation,
)
from tuneplane_server.executors.slurm import ending, states
from tuneplane_server.executors.slurm.cards import node_infos
from tuneplane_server.executors.slurm.checking import findings
from tuneplane_server.executors.slurm.clearing import Clearing
from tuneplane_server.executors.slurm.clusters import ClusterFacts
from tuneplane_server.executors.slurm.earlier import living_start
from tuneplane_server.executors.slurm.errors import explained, unreachable
from tuneplane_server.executors.slurm.handles import (
    ELSEWHERE,
    Attempt,
    Place,
    is_foreign,
    make_handle,
    place_of,
    starts_at,
)
from tuneplane_server.executors.slurm.intents import read_intent, write_file
from tuneplane_server.executors.slurm.launching import SlurmLauncher, handle_of
from tuneplane_server.executors.slurm.looking import Job, Listings, Lookup
from tuneplane_server.executors.slurm.overdue import Overdue
from tuneplane_server.executors.slurm.pending import queued_of
from tuneplane_server.executors.slurm.rest.client import SlurmClient
from tuneplane_server.executors.slurm.rest.models import SlurmError
from tuneplane_server.executors.slurm.rules import SlurmRules
from tuneplane_server.executors.slurm.states import Stage

log = structlog.get_logger(__name__)


class SlurmExecutor:
    name = "slurm"

    def __init__(
        self,
        client: SlurmClient,
        rules: SlurmRules,
        clock: Clock,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client, self.rules = client, rules
        self._listings = Listings(client, rules.slurm.user, rules.storage_root, monotonic)
        self._lookup = Lookup(client, self._listings, rules.slurm.lost_after, monotonic)
        self._overdue = Overdue(rules.slurm.lost_after, monotonic)
        self._cluster = ClusterFacts(client, monotonic)
        self.launcher = SlurmLauncher(client, self._listings, self._lookup, self._cluster, rules, clock)
        self.clearing = Clearing(client, self._listings, self._lookup, rules.storage_root, clock, self.launcher)

    async def open(self) -> None:
        """Nothing is asked: the first call finds out what the server speaks."""

    async def close(self) -> None:
        await self.launcher.close()
        await self.clearing.close()
        await self._listings.close()
        await self.client.close()

    # --- what there is --------------------------------------------------------------------------------------------

    def capabilities(self) -> Capabilities:
        slurm = self.rules.slurm
        return Capabilities(
            runtime=slurm.container,
            image_form=slurm.image_form,
            heterogeneous_pools=True,
            multi_node=True,
            own_queue=True,
        )

    async def check(self) -> list[Finding]:
        return await findings(self.client, self.rules.slurm, self.rules.storage_root)

    async def nodes(self) -> list[NodeInfo]:
        """Those of the partitions that jobs can go to."""
        try:
            cluster = await self._cluster.get()
        except SlurmError as error:
            raise unreachable(error) from error
        return node_infos(cluster.nodes, cluster.partitions, self.rules)

    async def sample(self, node: str) -> NodeFigures | None:
        """Nothing is measured: Slurm says who has a card, not what it does."""
        return None

    # --- one attempt ----------------------------------------------------------------------------------------------

    async def launch(self, plan: LaunchPlan) -> Handle:
        return await self.launcher.launch(plan)

    async def observe(self, handle: Handle) -> Observation:
        if is_foreign(handle):
            return Observation("unknown", detail=ELSEWHERE)
        if not handle.data:
            return Observation("unknown", detail="never launched")
        place = place_of(handle)
        try:
            return await self._look(place, handle)
        except SlurmError as error:
            return Observation("unknown", detail=f"Slurm: {explained(error)}")
        except OSError as error:
            return Observation("unknown", detail=f"the storage root cannot be read: {error}")

    async def stop(self, handle: Handle, grace: timedelta) -> None:
        if is_foreign(handle):
            raise ExecutorUnreachableError(ELSEWHERE)
        if not handle.data:
            return
        try:
            await self.clearing.stop(place_of(handle), grace)
        except SlurmError as error:
            raise unreachable(error) from error
        except OSError as error:
            raise ExecutorUnreachableError(f"the storage root cannot be written: {error}") from error

    async def cleanup(self, handle: Handle) -> CleanupState:
        if is_foreign(handle):
            return CleanupState.UNKNOWN
        try:
            return await self.clearing.cleanup(place_of(handle))
        except SlurmError as error:
            log.info("Slurm cannot be asked about what is to be gone", job=handle.job_id, why=explained(error))
        except OSError as error:
            log.warning("the storage root cannot be used", job=handle.job_id, why=str(error))
        return CleanupState.UNKNOWN

    async def owned(self, nodes: Sequence[str] = ()) -> list[Handle]:
        """What has not ended, of this storage root. Slurm keeps the records of what has for a while, and nobody can remove them."""
        try:
            listing = await self._listings.get(after=self._listings.now())
        except SlurmError as error:
            raise unreachable(error) from error
        alive = {
            key: next((job for job in jobs if not states.is_over(job)), None) for key, jobs in listing.jobs.items()
        }
        found = [
            (key, job)
            for key, job in alive.items()
            if job is not None and starts_at(job[0], key, self.rules.storage_root)
        ]
        handles = await asyncio.to_thread(lambda: [self._handle(key, job) for key, job in found])
        return [handle for handle in handles if not nodes or set(nodes).intersection(handle.nodes)]

    # --- looking --------------------------------------------------------------------------------------------------

    async def _look(self, place: Place, handle: Handle) -> Observation:
        jobs = await self._lookup.jobs(place)
        if not jobs:
            return await self._forgotten(place, handle)
        job = await self.clearing.only_one(place, jobs)
        stage = states.stage_of(job)
        if stage is Stage.REQUEUED:
            return ending.requeued(job, await self._left(place, handle))
        if stage is Stage.ENDED:
            return await self._ended(place, handle, job)
        return await self._alive(place, job, stage, len(handle.nodes))

    async def _alive(self, place: Place, job: Job, stage: Stage, machines: int) -> Observation:
        words, started_at = states.words_of(job), job[0].started_at
        if stage is Stage.QUEUED:
            places = (await self._listings.get()).places
            return Observation("present", running=True, started=False, detail=words.text, queued=queued_of(job, places))
        if words.strange:
            log.warning("Slurm says words that are not known here", job=place.job_id, words=words.strange)
        missing = states.missing_gpus(job, place.gpus)
        if missing is not None:
            log.warning("a job that got too few GPUs is ended", job=place.job_id, why=missing)
            assert place.directory is not None
            await asyncio.to_thread(write_file, place.directory, ending.MISSING_FILE, f"{missing}\n")
            self.clearing.cancel_beside(job)
        elif stage is Stage.RUNNING and await self._overdue.has_ended(place, machines):
            log.warning("a job that Slurm takes for running has ended", job=place.job_id, slurm=job[0].leader_id)
            self.clearing.cancel_beside(job)
        return Observation(
            "present",
            running=True,
            started=stage is not Stage.PREPARING and started_at is not None and missing is None,
            started_at=None if stage is Stage.PREPARING else started_at,
            detail=missing or words.text,
            nodes=states.nodes_of(job),
        )

    async def _ended(self, place: Place, handle: Handle, job: Job) -> Observation:
        return ending.ended(job, await self._left(place, handle), handle.nodes, place.gpus)

    async def _forgotten(self, place: Place, handle: Handle) -> Observation:
        """slurmctld does not know it now: slurmdbd is asked, which says most, then what the batch script left, and then time."""
        patience = self._lookup.absent(place)
        left = await self._left(place, handle)
        detail = f"Slurm does not know job {place.slurm_id} of this attempt"
        if left.over is not None:
            return Observation("absent", exit=Exit(absent=True), detail=detail)
        seen = ending.by_its_files(left, handle.nodes, detail)
        try:
            job = await self._lookup.accounted(place, now=patience is None)
        except SlurmError as error:
            if seen is None and error.kind != "refused":  # one that tells us nothing ever is none
                raise
            job = None
        if job is not None:
            return ending.ended(job, left, handle.nodes, place.gpus)
        if seen is not None:
            return seen
        if patience is not None:
            text = f"{detail}; it counts as lost when that is still so in {patience:.0f} s"
            return Observation("unknown", detail=text)
        if await asyncio.to_thread(living_start, place.directory, place.slurm_id) is not None:
            return Observation("unknown", detail=f"{detail}, but it still gives signs of life")
        return Observation(
            "absent", exit=Exit(absent=True, cause="slurm-job-lost", detail=detail), detail=detail, output=left.output
        )

    async def _left(self, place: Place, handle: Handle) -> ending.Left:
        """Raises OSError when the storage root is away; of a directory that somebody removed from it, nothing is left."""
        assert place.directory is not None
        try:
            return await asyncio.to_thread(ending.read_left, place.directory, len(handle.nodes))
        except FileNotFoundError:
            await asyncio.to_thread((self.rules.storage_root / "projects").stat)
            return ending.NOTHING_LEFT

    def _handle(self, key: Attempt, job: Job) -> Handle:
        """Blocks. As the launch made it; of a job whose intent cannot be read, as far as Slurm says."""
        job_id, attempt = key
        directory = Path(job[0].directory)
        try:
            intent = read_intent(directory)
        except OSError as error:
            log.warning("the intent of a job cannot be read", job=job_id, why=str(error))
            intent = None
        if intent is not None:
            known = intent if intent.slurm_id is not None else intent.with_id(job[0].leader_id)
            return handle_of(job_id, attempt, directory, known)
        place = Place(job_id, attempt, job[0].leader_id, directory, sum(part.gpus_asked for part in job))
        names = [f"{self.name}/{job_id}-{attempt}/{rank}" for rank in range(sum(part.nodes_asked or 1 for part in job))]
        return make_handle(place, tuple(names), self.rules.slurm.container)
