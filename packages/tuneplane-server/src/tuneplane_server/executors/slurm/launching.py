"""Submitting an attempt once: create-or-get, although a submit may have happened without an answer.

Before each submit an intent is on disk. Whoever finds one without an answer looks for the job by its name, its comment and its
time first; only when Slurm has not shown it for a while is it submitted again. Two jobs of one attempt can be all the same (a
console that was frozen between intent and submit): then the batch script lets one of them begin, and the other is cancelled.
"""

from __future__ import annotations

import asyncio
import pwd
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import structlog

from tuneplane_server.clock import Clock
from tuneplane_server.domain.own_queue import is_counted
from tuneplane_server.executors.port import (
    ExecutorUnreachableError,
    Handle,
    LaunchDelayedError,
    LaunchPlan,
    LaunchRefusedError,
)
from tuneplane_server.executors.slurm import states
from tuneplane_server.executors.slurm.errors import UNREACHABLE, launch_error, said, unreachable
from tuneplane_server.executors.slurm.handles import DIRECTORY, ELSEWHERE, Attempt, Place, make_handle
from tuneplane_server.executors.slurm.intents import (
    OVER_FILE,
    Intent,
    Outcome,
    answer,
    begin,
    make_directory,
    read_intent,
    time_of,
    write_file,
)
from tuneplane_server.executors.slurm.looking import Listings, Lookup
from tuneplane_server.executors.slurm.rest.client import SlurmClient
from tuneplane_server.executors.slurm.rest.models import SlurmError, Submission
from tuneplane_server.executors.slurm.rules import SlurmRules
from tuneplane_server.executors.slurm.script import Part, ScriptError, ScriptRequest, render
from tuneplane_server.executors.slurm.script.bundles import read_bundle
from tuneplane_server.executors.slurm.submitting import Cluster, gpus_of, pools_of, submission_of

log = structlog.get_logger(__name__)

# How long a job may be on its way into Slurm without anybody seeing it. slurmctld answers within seconds or not at all.
UNKNOWN_SECONDS = 60.0
CLOSE_SECONDS = 10.0
OVER_MEANWHILE = "the attempt was proved to be over meanwhile"
SCRIPT_FILE = "job.sh"  # what was submitted, for people


class ClusterFacts(Protocol):
    async def get(self) -> Cluster:
        """As of the last seconds. Raises SlurmError."""
        ...


class SlurmLauncher:
    def __init__(
        self,
        client: SlurmClient,
        listings: Listings,
        lookup: Lookup,
        cluster: ClusterFacts,
        rules: SlurmRules,
        clock: Clock,
        *,
        unknown_seconds: float = UNKNOWN_SECONDS,
    ) -> None:
        self._client, self._listings, self._lookup, self._cluster = client, listings, lookup, cluster
        self._rules, self._clock, self.unknown_seconds = rules, clock, unknown_seconds
        self._submitting: dict[Attempt, asyncio.Task[Intent]] = {}

    async def close(self) -> None:
        """Submits that are on their way get to know their answers, if these come soon."""
        tasks = set(self._submitting.values())
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def launch(self, plan: LaunchPlan) -> Handle:
        """As the port's. Who stops waiting does not cut a submit off from its answer."""
        if not any(is_counted(machine.node) for machine in plan.machines):
            raise ExecutorUnreachableError(ELSEWHERE, UNREACHABLE)  # placed before the setting was changed
        directory = plan.capsule.parent / DIRECTORY
        try:
            intent = await self._launch(plan, directory)
        except OSError as error:
            raise LaunchDelayedError("storage-failed", {"detail": str(error)}) from error
        return handle_of(plan.job_id, plan.attempt, directory, intent)

    async def settle(self, key: Attempt) -> bool:
        """Waits a moment until no submit of the attempt is on its way from here; its answer is on disk then, if there was one.
        False: one still is."""
        task = self._submitting.get(key)
        if task is not None:
            await asyncio.wait({task}, timeout=CLOSE_SECONDS)
        return task is None or task.done()

    async def _launch(self, plan: LaunchPlan, directory: Path) -> Intent:
        key = plan.job_id, plan.attempt
        if key in self._submitting:
            return await asyncio.shield(self._submitting[key])
        intent = await asyncio.to_thread(read_intent, directory)
        if intent is not None and intent.outcome == "unknown":
            intent = await self._settled(plan, directory, intent)
        if intent is not None and intent.slurm_id is not None:
            return intent
        submission = await self._prepared(plan, directory)
        task = asyncio.create_task(self._submit(plan, directory, intent, submission), name=f"submit {plan.job_id}")
        self._submitting[key] = task
        task.add_done_callback(lambda done: self._over(key, done))
        return await asyncio.shield(task)

    def _over(self, key: Attempt, task: asyncio.Task[Intent]) -> None:
        if self._submitting.get(key) is task:
            del self._submitting[key]
        if not task.cancelled():
            task.exception()  # whoever waited has it; perhaps nobody does any more

    # --- a submit nobody saw the end of -----------------------------------------------------------------------------

    async def _settled(self, plan: LaunchPlan, directory: Path, intent: Intent) -> Intent:
        """With its answer, or old enough to be tried again. Raises `ExecutorUnreachableError`."""
        found = await self._found(plan, directory, intent)
        if found is not None:
            return found
        if is_young(intent, self._now(), self.unknown_seconds):
            text = (
                "Slurm did not answer the last try to submit the job, and does not show it yet; it is looked for again"
            )
            raise ExecutorUnreachableError(text, UNREACHABLE)
        log.warning("a job that Slurm may have been given is not there; it is submitted again", job=plan.job_id)
        return intent

    async def _found(self, plan: LaunchPlan, directory: Path, intent: Intent) -> Intent | None:
        """Raises as a launch does, when Slurm cannot be asked, and when what it has is a record of its refusal."""
        try:
            job = await self._lookup.found_by_name(plan.job_id, plan.attempt, intent.first)
        except SlurmError as error:
            raise unreachable(error) from error
        if job is None:
            return None
        if states.was_refused(job):
            refusal = SlurmError("refused", states.words_of(job).text)
            outcome: Outcome = "not-submitted" if intent.n == 1 else "unknown"  # perhaps it is not of this try
            await asyncio.to_thread(answer, directory, intent, outcome, None, said(refusal))
            raise launch_error(refusal)
        log.info("found the job of a submit that nobody saw the answer of", job=plan.job_id, slurm=job[0].leader_id)
        return await asyncio.to_thread(answer, directory, intent, "submitted", job[0].leader_id)

    # --- a try ------------------------------------------------------------------------------------------------------

    async def _prepared(self, plan: LaunchPlan, directory: Path) -> Submission:
        try:
            cluster = await self._cluster.get()
        except SlurmError as error:
            raise unreachable(error) from error
        return await asyncio.to_thread(self._prepare, plan, directory, cluster)

    async def _submit(self, plan: LaunchPlan, directory: Path, last: Intent | None, submission: Submission) -> Intent:
        now = self._now()
        intent = Intent(
            n=1 if last is None else last.n + 1,
            at=now,
            first=now if last is None else last.first,
            nodes=tuple(machine.node for machine in plan.machines),
            gpus=gpus_of(pools_of(plan)),
            runtime=self._rules.slurm.container,
            warning=None if submission.warning is None else submission.warning[1],
        )
        if await asyncio.to_thread(time_of, directory, OVER_FILE) is not None:
            # By a console that took this launch over while this one was held up.
            raise LaunchDelayedError("launch-failed", {"detail": OVER_MEANWHILE})
        if not await asyncio.to_thread(begin, directory, intent):
            raise ExecutorUnreachableError("another console is about to submit this attempt", UNREACHABLE)
        try:
            slurm_id = await self._client.submit(submission)
        except SlurmError as error:
            certain = last is None or last.outcome != "unknown"
            known = await self._not_answered(plan, directory, intent, error, certain=certain)
        else:
            known = await self._write_answer(plan, directory, intent, slurm_id)
        finally:
            self._listings.forget()
        await self._undo_if_over(plan, directory, known)
        return known

    async def _undo_if_over(self, plan: LaunchPlan, directory: Path, known: Intent) -> None:
        """The batch script starts nothing then either. One that cannot be cancelled now is found as an orphan."""
        if known.slurm_id is None or await asyncio.to_thread(time_of, directory, OVER_FILE) is None:
            return
        log.warning("a job came into Slurm after its attempt was over; it is cancelled", slurm=known.slurm_id)
        try:
            await self._client.cancel(known.slurm_id)
        except SlurmError as error:
            log.warning("a job could not be cancelled yet", slurm=known.slurm_id, why=said(error))
        finally:
            self._listings.forget()
        raise LaunchDelayedError("launch-failed", {"detail": OVER_MEANWHILE})

    async def _not_answered(
        self, plan: LaunchPlan, directory: Path, intent: Intent, error: SlurmError, *, certain: bool
    ) -> Intent:
        """`certain`: no earlier try may have come into Slurm. Else a refusal of this one does not settle the attempt."""
        if error.kind != "unknown-outcome":
            outcome: Outcome = "not-submitted" if certain else "unknown"
            await asyncio.to_thread(answer, directory, intent, outcome, None, said(error))
            raise launch_error(error) from error
        log.warning("nobody knows whether Slurm took a job", job=plan.job_id, why=said(error))
        found = await self._found(plan, directory, intent)
        if found is None:
            raise unreachable(error) from error
        return found

    async def _write_answer(self, plan: LaunchPlan, directory: Path, intent: Intent, slurm_id: int) -> Intent:
        log.info("submitted a job to Slurm", job=plan.job_id, attempt=plan.attempt, slurm=slurm_id)
        try:
            return await asyncio.to_thread(answer, directory, intent, "submitted", slurm_id)
        except OSError as error:  # the job is there: a later launch finds it by its name
            log.warning("Slurm's answer could not be written down", job=plan.job_id, slurm=slurm_id, why=str(error))
            raise LaunchDelayedError("storage-failed", {"detail": str(error)}) from error

    def _prepare(self, plan: LaunchPlan, directory: Path, cluster: Cluster) -> Submission:
        """Blocks. The directory, with all that the batch script needs in it."""
        slurm = self._rules.slurm
        make_directory(directory)
        open_to(slurm.user, plan.writable)
        try:
            script = render(
                ScriptRequest(
                    job_id=plan.job_id,
                    attempt=plan.attempt,
                    profile=slurm.container,
                    image=plan.image or "",
                    capsule=plan.capsule,
                    slurm_dir=directory,
                    storage_root=self._rules.storage_root,
                    parts=tuple(Part(pool.machines, pool.gpus) for pool in pools_of(plan)),
                    environment_names=tuple(sorted(plan.env)),
                    read_only=plan.read_only,
                    writable=plan.writable,
                    extra_mounts=self._rules.extra_mounts,
                    grace=plan.grace.total_seconds(),
                    bundle=read_bundle(plan.image or "") if slurm.container == "oci" else None,
                )
            )
        except ScriptError as error:
            raise LaunchRefusedError("launch-failed", {"detail": str(error)}) from error
        for name, text in script.files.items():
            write_file(directory, name, text)
        write_file(directory, SCRIPT_FILE, script.text)
        return submission_of(plan, script.text, str(directory), cluster, self._rules)

    def _now(self) -> float:
        return self._clock.now().timestamp()


def handle_of(job_id: str, attempt: int, directory: Path, intent: Intent) -> Handle:
    place = Place(job_id, attempt, intent.slurm_id, directory, intent.gpus)
    return make_handle(place, intent.nodes, intent.runtime)


def is_young(intent: Intent, now: float, seconds: float) -> bool:
    """Whether what was submitted in this try may still be on its way. Consoles' clocks differ a little, so either way counts."""
    return abs(now - intent.at) < seconds


def open_to(user: str, directories: Iterable[Path]) -> None:
    """Let the Slurm user write there, as the run does in a container. Where it is ours alone and cannot be opened, the run says so."""
    try:
        uid: int | None = pwd.getpwnam(user).pw_uid
    except KeyError:
        uid = None  # known on the cluster only
    for directory in directories:
        found = directory.stat()
        if found.st_uid == uid or found.st_mode & stat.S_IWOTH:
            continue
        try:
            directory.chmod(stat.S_IMODE(found.st_mode) | 0o1777)
        except PermissionError:
            log.warning("the Slurm user may not be able to write there", directory=str(directory), user=user)
