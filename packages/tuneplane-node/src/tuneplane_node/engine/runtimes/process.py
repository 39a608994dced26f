"""Process mode: a job is a process group of this machine under a small supervisor. For development: nothing is isolated.

`image` is the path of a Python environment whose `bin` comes first on PATH, or None.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from tuneplane.i18n import _
from tuneplane_node.engine.problems import Finding, NodeError, finding
from tuneplane_node.engine.requests import (
    LABEL_INSTANCE,
    LaunchRequest,
    Observed,
    OwnedContainer,
    RuntimeHandle,
    same_identity,
)
from tuneplane_node.engine.runtimes.base import KILL_SECONDS, to_its_end
from tuneplane_node.engine.runtimes.process_records import ProcessRecords, Record, read_tail
from tuneplane_node.engine.runtimes.process_strangers import end_stranger, find_strangers, marks
from tuneplane_node.engine.sampling.jobs import JobPlace
from tuneplane_node.engine.strangers import Stranger
from tuneplane_node.engine.supervisor import supervisor_command
from tuneplane_node.engine.supervisor.procfs import PROC, ProcessIdentity

START_SECONDS = 20.0
_POLL_SECONDS = 0.05
_TEMPORARY = "/tmp"  # noqa: S108 - what TMPDIR is where it is not set
# What of the console's own environment a job may see: never its settings, which hold secrets.
_PASSED_ON = ("HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH")


class ProcessRuntime:
    """`root`: directory of the records, on a local disk. `host_env`: the environment to take PATH and locale from."""

    name = "process"

    def __init__(self, root: Path, instance_id: str, host_env: Mapping[str, str]) -> None:
        self._records = ProcessRecords(root)
        self._instance = instance_id
        self._host_env = dict(host_env)

    async def check(self) -> list[Finding]:
        findings = [finding("process-isolates-nothing")]
        if sys.platform != "linux" or not _has_procfs():
            findings.append(finding("process-unsupported"))
        return findings

    async def gives_gpus(self) -> bool:
        return True

    async def launch(self, request: LaunchRequest) -> RuntimeHandle:
        return await to_its_end(self._launch(request))

    async def observe(self, name: str) -> Observed:
        try:
            record = await self._find(name)
            return Observed("absent") if record is None else await self._ask(record.observe)
        except NodeError as problem:
            return Observed("unknown", detail=f"{problem.code}: {problem.detail}")

    async def stop(self, name: str, grace_seconds: float) -> None:
        record = await self._find(name)
        started = None if record is None else await self._ask(record.started)
        if started is None:
            return
        if started.leader.signal(signal.SIGTERM):
            watched = started.supervisor if started.supervisor.alive() else started.leader
            await _wait_for_end(watched, grace_seconds)
        await self.kill(name)

    async def kill(self, name: str) -> None:
        record = await self._find(name)
        deadline = time.monotonic() + KILL_SECONDS
        while record is not None and not await self._ask(record.kill_members):
            if time.monotonic() > deadline:
                raise NodeError("still-running", name=name, seconds=KILL_SECONDS)
            await asyncio.sleep(_POLL_SECONDS)

    async def remove(self, name: str) -> bool:
        try:
            await self.kill(name)
            record = await self._find(name)
            return record is None or await self._ask(self._records.discard, record)
        except NodeError:
            return False  # not proved; it is asked again

    async def owned(self) -> list[OwnedContainer]:
        return [
            OwnedContainer(RuntimeHandle(self.name, record.path.name), record.labels)
            for record in await self._ask(self._records.all)
            if record.labels.get(LABEL_INSTANCE) == self._instance
        ]

    async def strangers(self) -> list[Stranger]:
        return await self._ask(find_strangers)

    async def end_stranger(self, stranger: Stranger) -> bool:
        return await self._ask(end_stranger, stranger)

    async def places(self) -> list[JobPlace]:
        return await self._ask(self._places)

    def _places(self) -> list[JobPlace]:
        return [
            JobPlace(f"{self.name}/{record.path.name}", dict(record.labels), pids)
            for record in self._records.all()
            if record.labels.get(LABEL_INSTANCE) == self._instance and (pids := record.roots())
        ]

    async def logs(self, name: str, tail_bytes: int) -> bytes:
        record = await self._find(name)
        return b"" if record is None else await self._ask(read_tail, record, tail_bytes)

    async def prune_images(self, limit_bytes: int, pinned: Collection[str]) -> list[str]:
        """Environments are built by an administrator, never by a job: none is removed."""
        return []

    async def forget_notes(self) -> int:
        """A look at the records also finishes what a crash left half removed."""
        await self._ask(self._records.all)
        return 0

    async def close(self) -> None:
        """Nothing is held: supervisors belong to nobody."""

    async def _launch(self, request: LaunchRequest) -> RuntimeHandle:
        environment = self._environment(request)
        await self._ask(self._records.create, request, environment.get("TMPDIR") or _TEMPORARY)
        record = await self._ask(self._records.get, request.name)
        if record is None:
            raise NodeError("engine-refused", _("the record was removed while the job was launched"), runtime=self.name)
        if not same_identity(request.labels, record.labels):
            raise NodeError("name-conflict", name=request.name)
        if (await self._ask(record.observe)).state == "created":
            environment |= marks(request, record)
            if await self._ask(record.make_scratch):
                environment["TMPDIR"] = str(
                    record.scratch
                )  # as a container's own, it goes with the job, however it ends
            await self._start(record, request, environment)
        return RuntimeHandle(self.name, request.name)

    async def _find(self, name: str) -> Record | None:
        """The record if it is this console's."""
        record = await self._ask(self._records.get, name)
        return record if record is not None and record.labels.get(LABEL_INSTANCE) == self._instance else None

    async def _ask[**P, T](self, look: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """File work off the event loop. Files that cannot be read say nothing about the job."""
        try:
            return await asyncio.to_thread(look, *args, **kwargs)
        except (OSError, ValueError, KeyError, TypeError) as problem:
            detail = f"{type(problem).__name__}: {problem}"
            raise NodeError("record-unusable", detail, path=self._records.root) from problem

    def _environment(self, request: LaunchRequest) -> dict[str, str]:
        for mount in request.mounts:
            if mount.source != mount.target:
                raise NodeError("mount-unsupported", source=mount.source, target=mount.target)
            if not Path(mount.source).exists():
                raise NodeError("mount-missing", mount.source)
        environment = {key: self._host_env[key] for key in _PASSED_ON if key in self._host_env}
        environment["PATH"] = _path_without_us(self._host_env.get("PATH", os.defpath))
        environment |= request.env
        if request.image is not None:
            folder = Path(request.image) / "bin"
            if not (folder / "python3").exists():
                raise NodeError(
                    "runtime-missing",
                    _absent_python(folder / "python3"),
                    path=request.image,
                    runtime_id=Path(request.image).name,
                )
            environment |= {"PATH": f"{folder}{os.pathsep}{environment['PATH']}", "VIRTUAL_ENV": request.image}
        # Without these a job that was given no card, or some, would take all of a machine that has real ones.
        environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, request.gpus))
        return environment

    async def _start(self, record: Record, request: LaunchRequest, environment: dict[str, str]) -> None:
        """Run the supervisor; it answers when the command runs. The environment goes through a pipe, not argv or disk."""
        launch = {"command": list(request.command), "env": environment, "workdir": request.workdir or str(record.path)}
        with (record.path / "supervisor.log").open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *supervisor_command(record.path),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env={"PATH": os.defpath},
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(START_SECONDS):
                output, _errors = await process.communicate(json.dumps(launch).encode())
        except TimeoutError:
            raise NodeError(
                "supervisor-failed", _("no answer within {seconds:.0f} s").format(seconds=START_SECONDS)
            ) from None
        if output.endswith(b"\n"):
            answer = json.loads(output)
        elif await self._ask(record.started) is not None:
            return  # killed before its answer: the command may run, and whoever observes it finds it or its end
        else:
            answer = {"status": "failed", "where": "supervisor", "detail": ""}
        if answer["status"] == "failed":
            raise await self._start_failed(record, request, answer)

    async def _start_failed(self, record: Record, request: LaunchRequest, answer: dict[str, str]) -> NodeError:
        detail = answer["detail"] or await asyncio.to_thread(_supervisor_log, record)
        await self._ask(self._records.discard, record, KILL_SECONDS)  # the supervisor is about to leave
        if answer["where"] == "command":
            return NodeError("command-not-found", detail, command=request.command[0])
        if answer["where"] == "workdir":
            return NodeError("workdir-missing", detail, path=request.workdir)
        if answer["where"] == "record":
            return NodeError("record-unusable", detail, path=record.path)
        return NodeError("supervisor-failed", detail)


def _has_procfs() -> bool:
    return Path(PROC, "self/stat").exists()


def _absent_python(python: Path) -> str:
    """On a shared storage root an environment is on every machine; the Python that it was built with may be on one alone."""
    return f"{python} -> {os.path.realpath(python)}: No such file or directory" if python.is_symlink() else ""


def _path_without_us(path: str) -> str:
    """A console started from its own environment must not lend its packages to a job."""
    ours = str(Path(sys.prefix) / "bin")
    return os.pathsep.join(part for part in path.split(os.pathsep) if part and part.rstrip("/") != ours)


def _supervisor_log(record: Record) -> str:
    try:
        return (record.path / "supervisor.log").read_text(errors="replace")[-1500:].strip()
    except OSError as problem:
        return str(problem)


async def _wait_for_end(process: ProcessIdentity, seconds: float) -> None:
    """Return when the process has ended or the time is up."""
    descriptor = process.open()
    if descriptor is None:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        async with asyncio.timeout(seconds):
            await ended.wait()
    except TimeoutError:
        pass  # the caller goes on to kill
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
