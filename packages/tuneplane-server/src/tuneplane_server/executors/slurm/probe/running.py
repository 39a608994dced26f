"""The probe's jobs: submitted, watched for a bounded time, and taken back whatever happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import httpx2

from tuneplane.i18n import _
from tuneplane_node.daemon.file_lane import FileLane, StorageHangsError
from tuneplane_server.executors.port import Finding
from tuneplane_server.executors.slurm import checking, pending, states
from tuneplane_server.executors.slurm.errors import meaning_of, said
from tuneplane_server.executors.slurm.probe.answers import Answer, ExitVerdict
from tuneplane_server.executors.slurm.probe.judging import OK, Asked, Seen, judge, judge_exit
from tuneplane_server.executors.slurm.probe.place import ProbePlace
from tuneplane_server.executors.slurm.rest.models import (
    Component,
    Partition,
    SlurmError,
    SlurmJob,
    SlurmNode,
    Submission,
)
from tuneplane_server.executors.slurm.submitting import BASE_ENVIRONMENT
from tuneplane_server.slurm_settings import SlurmSettings

NAME_PREFIX = "tp-probe-"
COMMENT = "tuneplane probe"
LIMIT_MINUTES = 2  # of the job: all that a killed doctor leaves ends by itself
MEMORY_MB = 256
LOOK_SECONDS = 1.0
ARRIVAL_SECONDS = 15.0  # how long a network file system may take to show what an ended job wrote
UNDO_SECONDS = 15.0
LANE_SECONDS = 15.0
LEFT = timedelta(hours=1)


class Cluster(checking.Cluster, Protocol):
    """What is asked here of a `SlurmClient`."""

    async def submit(self, job: Submission, /) -> int: ...
    async def jobs(self, *, name: str | None = None) -> list[SlurmJob]: ...
    async def job(self, job_id: int) -> list[SlurmJob]: ...
    async def cancel(self, job_id: int) -> None: ...


@dataclass(frozen=True)
class ProbeRequest:
    """`partitions`: those to look at; empty: all that the settings name. `wait`: the longest wait for a probe to end, seconds.
    `bundle`: a registered OCI bundle to run in, for the profile `oci`. `tell`: hears of the progress, a line at a time."""

    slurm: SlurmSettings
    storage_root: Path
    ingest_address: str
    partitions: tuple[str, ...] = ()
    wait: float = 120.0
    bundle: Path | None = None
    tell: Callable[[str], None] = field(default=lambda _line: None)


@dataclass(frozen=True)
class _Target:
    """One probe. `partition`: None for Slurm's default; `label`: its name for people."""

    partition: str | None
    label: str
    cards: int
    card: str | None


async def probe(client: Cluster, request: ProbeRequest) -> list[Finding]:
    """What the compute nodes say. Raises nothing for a cluster that is away; a cancel takes the jobs back first."""
    try:
        partitions, nodes = await client.partitions(), await client.nodes()
        await _forget_old(client)
    except SlurmError as error:
        return [checking.problem(error, request.slurm, datetime.now(UTC))]
    targets, wrong = _targets(request, partitions, nodes)
    answers_here = await _answers_here(request.ingest_address)
    probes = [_Probe(client, request, target, answers_here) for target in targets]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one.run(), name=f"probe {one.target.label}") for one in probes]
    return [*wrong, *(finding for task in tasks for finding in task.result())]


def _targets(
    request: ProbeRequest, partitions: Sequence[Partition], nodes: Sequence[SlurmNode]
) -> tuple[list[_Target], list[Finding]]:
    known = {partition.name: partition for partition in partitions}
    choices = request.slurm.partitions
    wanted: list[str | None] = list(request.partitions or choices.names)
    if not request.partitions and choices.default is None:
        wanted.append(None)
    default = next((partition.name for partition in partitions if partition.default), None)
    targets, wrong = [], []
    for name in wanted:
        shown = name or default
        if shown is None:  # Slurm chooses, and does not say what
            targets.append(_Target(None, _("default partition"), 0, None))
        elif shown not in known:
            text = _("Slurm has no partition {partition}").format(partition=shown)
            hint = _("change TUNEPLANE_SLURM_PARTITION; there are: {known}").format(known=", ".join(sorted(known)))
            wrong.append(Finding("slurm-partition", "error", text, hint))
        else:
            own = checking.nodes_of(known[shown], nodes)
            targets.append(_Target(name, shown, *_card_of(own, _profile_of(request.slurm, name))))
    return list(dict.fromkeys(targets)), wrong


def _profile_of(slurm: SlurmSettings, partition: str | None) -> str | None:
    return next((profile for profile, name in slurm.partitions.by_profile.items() if name == partition), None)


def _card_of(nodes: Sequence[SlurmNode], profile: str | None) -> tuple[int, str | None]:
    """(how many cards to ask for, Slurm's name of them): one where one is free, so that no probe waits for a card."""
    for node in nodes:
        kinds = [kind for kind, count in node.gpus.items() if count]
        fit = [kind for kind in kinds if profile is None or checking.is_profile(kind, profile)]
        if fit and (node.gpus_used is None or node.gpus_used < sum(node.gpus.values())):
            return 1, fit[0] or None
    return 0, None


async def _forget_old(client: Cluster) -> None:
    """Take back what a killed doctor left in the queue."""
    oldest = datetime.now(UTC) - LEFT
    for job in await client.jobs():
        ours = job.name.startswith(NAME_PREFIX) and job.comment == COMMENT
        if ours and not states.is_over([job]) and job.submitted_at is not None and job.submitted_at < oldest:
            await client.cancel(job.leader_id)


async def _answers_here(address: str) -> bool:
    try:
        async with httpx2.AsyncClient(timeout=15, trust_env=False, verify=False) as client:
            return (await client.get(_asked_url(address))).status_code == OK
    except httpx2.HTTPError:
        return False


def _asked_url(address: str) -> str:
    return f"{address}/api/v1/server"  # who answers there; needs no sign-in


class _Probe:
    def __init__(self, client: Cluster, request: ProbeRequest, target: _Target, answers_here: bool) -> None:
        self.target = target
        self._client, self._request = client, request
        self._place = ProbePlace(request.storage_root)
        self._name = f"{NAME_PREFIX}{self._place.probe_id}"
        self._asked = Asked(
            target.label,
            str(request.storage_root),
            request.ingest_address,
            request.slurm.container,
            target.cards,
            answers_here,
        )
        self._lane = FileLane(LANE_SECONDS)
        self._before = 0.0  # when there was no answer yet
        self._said = ""
        self._id: int | None = None
        self._submitting = False
        self._over = False

    async def run(self) -> list[Finding]:
        try:
            await self._lane.run(self._place.make)
            self._submitting = True
            self._id = await self._client.submit(self._submission())
            self._tell(_("submitted as Slurm job {id}").format(id=self._id))
            return await self._watch(self._id)
        except SlurmError as error:
            return [self._refused(error)]
        except (OSError, StorageHangsError) as error:
            text = _("the storage root {path} cannot be written").format(path=self._request.storage_root)
            hint = _("set TUNEPLANE_STORAGE_ROOT to a directory the console may write")
            return [Finding("storage-failed", "error", text, hint, str(error))]
        finally:
            await self._undo()

    def _submission(self) -> Submission:
        slurm, place, url = self._request.slurm, self._place, _asked_url(self._request.ingest_address)
        parts = urlsplit(url)
        environment = {
            **BASE_ENVIRONMENT,
            "TUNEPLANE_PROBE_ROOT": str(place.root),
            "TUNEPLANE_PROBE_PLACE": str(place.path),
            "TUNEPLANE_PROBE_URL": url,
            "TUNEPLANE_PROBE_HOST": parts.hostname or "",
            "TUNEPLANE_PROBE_PORT": str(parts.port or (443 if parts.scheme == "https" else 80)),
            "TUNEPLANE_PROBE_PATH": parts.path,
            "TUNEPLANE_PROBE_CONTAINER": slurm.container,
            "TUNEPLANE_PROBE_BUNDLE": "" if self._request.bundle is None else str(self._request.bundle),
        }
        target = self.target
        component = Component(1, target.cards, target.card, cpus=1, memory_mb=MEMORY_MB, partition=target.partition)
        return Submission(
            name=self._name,
            comment=COMMENT,
            script=files(__package__).joinpath("on_node.sh").read_text(encoding="utf-8"),
            components=(component,),
            environment=environment,
            directory="/",  # there on every node, whatever is wrong with the storage root
            output="/dev/null",
            time_limit_minutes=LIMIT_MINUTES,
            account=slurm.account,
            qos=slurm.qos.of(0),
            reservation=slurm.reservation,
        )

    # --- until it has told ----------------------------------------------------------------------------------------

    async def _watch(self, job_id: int) -> list[Finding]:
        deadline = time.monotonic() + self._request.wait
        self._before = time.time()
        while True:
            seen = [job for job in await self._client.job(job_id) if job.name == self._name]
            answer = await self._answer()
            if answer is not None:
                return answer
            if seen and states.is_over(seen):
                self._over = True
                return await self._ended(seen)
            if not seen:
                return [self._gone()]
            if time.monotonic() >= deadline:
                return [self._too_slow(seen)]
            self._tell(self._state(seen))
            await asyncio.sleep(LOOK_SECONDS)

    async def _answer(self) -> list[Finding] | None:
        before, now = self._before, time.time()
        told = await self._lane.run(self._place.read)
        if told is None:
            self._before = now
            return None
        self._over = True  # all that is left to it is to end
        answer = Answer.of(told)
        self._tell(_("answered from {host}").format(host=answer.host))
        if answer.nonce != self._place.nonce:
            return judge_exit(self._asked, ExitVerdict("other", http=True, container=True))
        return judge(self._asked, answer, Seen(before, time.time()))

    async def _ended(self, seen: Sequence[SlurmJob]) -> list[Finding]:
        """It is over and nothing has arrived: wait a moment for the file system, then believe the exit code."""
        verdict = ExitVerdict.of(seen[0].exit_code)
        deadline = time.monotonic() + (ARRIVAL_SECONDS if verdict is None or verdict.storage == "ok" else 0)
        while time.monotonic() < deadline:
            await asyncio.sleep(LOOK_SECONDS)
            if (answer := await self._answer()) is not None:
                return answer
        if verdict is not None:
            self._tell(_("ended without an answer"))
            return judge_exit(self._asked, verdict)
        text = _("{partition}: the probe ended before it could tell").format(partition=self.target.label)
        hint = _("look into the log of slurmd on {nodes}").format(nodes=", ".join(states.nodes_of(seen)) or "-")
        return [Finding("probe-failed", "error", text, hint, states.words_of(seen).text)]

    def _gone(self) -> Finding:
        text = _("{partition}: Slurm does not know the probe any more").format(partition=self.target.label)
        hint = _("somebody may have cancelled it, or MinJobAge of the cluster is very short; probe again")
        return Finding("probe-failed", "warning", text, hint)

    def _too_slow(self, seen: Sequence[SlurmJob]) -> Finding:
        text = _("{partition}: the probe did not come to its end in {seconds:.0f} s, and is taken back").format(
            partition=self.target.label, seconds=self._request.wait
        )
        hint = _("jobs would wait as well; tuneplane-server doctor --probe --wait SECONDS waits longer")
        return Finding("probe-waiting", "warning", text, hint, self._state(seen))

    def _state(self, seen: Sequence[SlurmJob]) -> str:
        if states.stage_of(seen) == states.Stage.QUEUED:
            reason, why = seen[0].reason, _(pending.plain(seen[0].reason))
            if reason in ("", "None"):
                return _("waits in Slurm's queue: {why}").format(why=why)
            return _("waits in Slurm's queue: {why} ({reason})").format(why=why, reason=reason)
        nodes = ", ".join(states.nodes_of(seen)) or "?"
        return _("runs on {nodes}").format(nodes=nodes)

    def _refused(self, error: SlurmError) -> Finding:
        if error.kind != "refused":
            return checking.problem(error, self._request.slurm, datetime.now(UTC))
        self._submitting = False
        text = _("{partition}: Slurm refuses jobs as the settings ask for them").format(partition=self.target.label)
        return Finding("probe-refused", "error", text, _(meaning_of(error).hint), said(error))

    def _tell(self, line: str) -> None:
        if line != self._said:
            self._said = line
            self._request.tell(f"{self.target.label}: {line}")

    # --- and back -------------------------------------------------------------------------------------------------

    async def _undo(self) -> None:
        """Also after a Ctrl-C: what cannot be taken back in time ends by its limit, and the next probe removes its place."""
        with suppress(TimeoutError, SlurmError, OSError, StorageHangsError):
            async with asyncio.timeout(UNDO_SECONDS):
                if self._submitting and not self._over:
                    await self._cancel()
                await self._lane.run(self._place.remove)

    async def _cancel(self) -> None:
        if self._id is not None:
            await self._client.cancel(self._id)
            return
        for job in await self._client.jobs(name=self._name):  # whether it was submitted nobody heard
            await self._client.cancel(job.leader_id)
