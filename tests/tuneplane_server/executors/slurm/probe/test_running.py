"""The probe against a cluster that is a script: its jobs really run `on_node.sh`, here, and the console's part is the real one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from tuneplane_server.domain.slurm_choices import QosLevels, parse_partitions
from tuneplane_server.executors.port import Finding
from tuneplane_server.executors.slurm.probe import ProbeRequest, probe, running
from tuneplane_server.executors.slurm.probe.place import ProbePlace
from tuneplane_server.executors.slurm.rest.models import (
    Association,
    Health,
    Partition,
    SlurmError,
    SlurmJob,
    SlurmNode,
    Submission,
)
from tuneplane_server.slurm_settings import SlurmSettings

UP = frozenset({"UP"})
PLAIN_TOOLS = ("cat", "mv", "id", "uname", "date", "df", "tail", "tr", "cut", "head", "sed", "ls", "sleep", "stat")
NODE = SlurmNode("n1", "10.0.0.1", frozenset({"IDLE"}), gpus={"h200": 8}, gpus_used=0, partitions=("main",))


@dataclass
class LocalCluster:
    """`run` changes the environment that a job gets, or where it runs; a held job waits until it is cancelled."""

    bin: Path
    shell: tuple[str, ...] = ("/bin/sh",)
    held: bool = False
    refuse: SlurmError | None = None
    lose_answer: bool = False  # the submit happens, and its answer is lost
    change: Callable[[dict[str, str]], object] = lambda _environment: None
    nodes_: tuple[SlurmNode, ...] = (NODE,)
    submitted: list[Submission] = field(default_factory=list)
    jobs_: dict[int, SlurmJob] = field(default_factory=dict)
    cancelled: list[int] = field(default_factory=list)
    is_submitted: asyncio.Event = field(default_factory=asyncio.Event)

    async def health(self) -> Health:
        return Health("24.11.5", "v0.0.42", True)

    async def partitions(self) -> list[Partition]:
        return [Partition("main", UP, nodes=("n1",), default=True), Partition("small", UP, nodes=("n1",))]

    async def nodes(self) -> list[SlurmNode]:
        return list(self.nodes_)

    async def reservations(self) -> list[str]:
        return []

    async def associations(self) -> list[Association] | None:
        return None

    async def submit(self, submission: Submission) -> int:
        if self.refuse is not None:
            raise self.refuse
        number = len(self.jobs_) + 1
        state = "PENDING" if self.held else "COMPLETED"
        job = SlurmJob(
            number, submission.name, submission.comment, "me", frozenset({state}), "Resources", datetime.now(UTC)
        )
        if not self.held:
            job = replace(job, exit_code=await self._run(submission), nodes=("n1",))
        self.submitted.append(submission)
        self.jobs_[number] = job
        self.is_submitted.set()
        if self.lose_answer:
            raise SlurmError("unknown-outcome", "the connection was lost")
        return number

    async def _run(self, submission: Submission) -> int:
        environment = dict(submission.environment) | {"PATH": f"{self.bin}:/usr/bin:/bin"}
        if submission.components[0].gpus:
            environment["CUDA_VISIBLE_DEVICES"] = "3"
        self.change(environment)
        process = await asyncio.create_subprocess_exec(
            *self.shell, "-s", env=environment, cwd=submission.directory, stdin=asyncio.subprocess.PIPE
        )
        await process.communicate(submission.script.encode())
        assert process.returncode is not None
        return process.returncode

    async def jobs(self, *, name: str | None = None) -> list[SlurmJob]:
        return [job for job in self.jobs_.values() if name in (None, job.name)]

    async def job(self, job_id: int) -> list[SlurmJob]:
        return [self.jobs_[job_id]] if job_id in self.jobs_ else []

    async def cancel(self, job_id: int) -> None:
        self.cancelled.append(job_id)


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    (tmp_path / "bin").mkdir()
    runtime = tmp_path / "bin" / "apptainer"
    runtime.write_text("#!/bin/sh\necho apptainer version 1.3.4\n")
    runtime.chmod(0o755)
    return LocalCluster(tmp_path / "bin")


def request(root: Path, console: str, **changes: object) -> ProbeRequest:
    slurm = SlurmSettings(
        url="http://slurm:6820", user="me", token=SecretStr("x"), token_file=None, ca_file=None, container="apptainer",
        partitions=parse_partitions("main"), account="acc", qos=QosLevels(((0, "normal"),)), reservation="res",
        time_limit_minutes=None, lost_after=timedelta(seconds=120),
    )  # fmt: skip
    return replace(ProbeRequest(slurm, root, console), **changes)


def left(root: Path) -> list[str]:
    return [path.name for path in (root / "projects").iterdir()]


def levels(found: list[Finding]) -> dict[str, str]:
    return {item.code: item.level for item in found}


async def test_a_probe_tells_of_its_node_and_leaves_nothing(
    tmp_path: Path, console: str, cluster: LocalCluster
) -> None:
    told: list[str] = []
    found = await probe(cluster, request(tmp_path / "root", console, tell=told.append))
    assert levels(found) == {
        "probe-storage": "info", "probe-ingest": "info", "probe-container": "info", "probe-cards": "info", "probe-disk": levels(found)["probe-disk"],
    }  # fmt: skip
    assert "CUDA_VISIBLE_DEVICES=3" in {item.detail for item in found}
    assert "apptainer version 1.3.4" in next(item.text for item in found if item.code == "probe-container")
    assert told[0].startswith("main: submitted as Slurm job 1")
    assert left(tmp_path / "root") == []
    (submission,) = cluster.submitted
    assert (submission.account, submission.qos, submission.reservation) == ("acc", "normal", "res")
    assert (submission.time_limit_minutes, submission.comment) == (2, "tuneplane probe")
    assert submission.name.startswith("tp-probe-")
    assert submission.components[0].gpus == 1


@pytest.mark.parametrize("tools", [("curl",), ("wget",), ("python3",), ("bash",), ()])
async def test_the_console_is_asked_with_whatever_is_there(
    tmp_path: Path, console: str, cluster: LocalCluster, tools: tuple[str, ...]
) -> None:
    for name in (*tools, *PLAIN_TOOLS):
        found = sys.executable if name == "python3" else shutil.which(name)
        if found is None:
            pytest.skip(f"{name} is not on this machine")
        (cluster.bin / name).write_text(f'#!/bin/sh\nexec {found} "$@"\n')
        (cluster.bin / name).chmod(0o755)
    cluster.change = lambda environment: environment.update(PATH=str(cluster.bin))
    found = await probe(cluster, request(tmp_path / "root", console))
    finding = next(item for item in found if item.code == "probe-ingest")
    assert (finding.level, finding.detail) == (("info", tools[0]) if tools else ("warning", ""))


async def test_a_console_that_does_not_answer(tmp_path: Path, cluster: LocalCluster) -> None:
    found = await probe(cluster, request(tmp_path / "root", "http://127.0.0.1:9"))
    finding = next(item for item in found if item.code == "probe-ingest")
    assert finding.level == "error"
    assert "tuneplane-server serve" in finding.hint
    elsewhere = await probe(cluster, request(tmp_path / "root", "http://127.0.0.1:9/other"))
    assert levels(elsewhere)["probe-ingest"] == "error"


async def test_what_answers_otherwise_is_not_this_console(tmp_path: Path, console: str, cluster: LocalCluster) -> None:
    found = await probe(cluster, request(tmp_path / "root", f"{console}/prefix"))
    finding = next(item for item in found if item.code == "probe-ingest")
    assert finding.level == "error"
    assert "HTTP 404" in finding.text


async def test_no_container_runtime(tmp_path: Path, console: str, cluster: LocalCluster) -> None:
    (cluster.bin / "apptainer").unlink()
    cluster.change = lambda environment: environment.update(PATH=f"{cluster.bin}:/usr/bin:/bin")
    if shutil.which("apptainer", path="/usr/bin:/bin") or shutil.which("singularity", path="/usr/bin:/bin"):
        pytest.skip("this machine has one")
    assert levels(await probe(cluster, request(tmp_path / "root", console)))["probe-container"] == "error"


async def test_another_directory_at_the_same_path(
    tmp_path: Path, console: str, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job sees nothing of what the console wrote: only its exit code arrives."""
    other = tmp_path / "other"
    (other / "projects").mkdir(parents=True)
    (cluster.bin / "sleep").write_text("#!/bin/sh\n")  # it looks five times, a second apart
    (cluster.bin / "sleep").chmod(0o755)

    def there(environment: dict[str, str]) -> None:
        for name in ("ROOT", "PLACE"):
            key = f"TUNEPLANE_PROBE_{name}"
            environment[key] = environment[key].replace(str(tmp_path / "root"), str(other))

    cluster.change = there
    found = await probe(cluster, request(tmp_path / "root", console))
    (finding,) = found
    assert (finding.code, finding.level) == ("probe-storage", "error")
    assert "another directory" in finding.text
    (other / "projects").rmdir()
    other.rmdir()
    (finding,) = await probe(cluster, request(tmp_path / "root", console))
    assert "is not there" in finding.text
    assert "TUNEPLANE_STORAGE_ROOT" in finding.hint


def _closed(folder: Path) -> Path:
    folder.chmod(0o711)
    root = folder / "root"
    root.mkdir(mode=0o700)
    return root


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
async def test_a_user_that_may_not_pass(console: str, cluster: LocalCluster) -> None:
    """What a job runs as another user may not enter; the exit code says so."""
    setpriv = shutil.which("setpriv")
    assert setpriv is not None
    cluster.shell = (setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "/bin/sh")
    with tempfile.TemporaryDirectory() as folder:  # pytest's own lets nobody pass
        root = _closed(Path(folder))
        (finding, *_rest) = await probe(cluster, request(root, console))
    assert "may not enter" in finding.text


async def test_a_probe_that_waits_too_long_is_taken_back(tmp_path: Path, console: str, cluster: LocalCluster) -> None:
    cluster.held = True
    found = await probe(cluster, request(tmp_path / "root", console, wait=0.0))
    (finding,) = found
    assert (finding.code, finding.level) == ("probe-waiting", "warning")
    assert "(Resources)" in finding.detail
    assert cluster.cancelled == [1]
    assert left(tmp_path / "root") == []


async def test_a_cancelled_doctor_takes_its_jobs_back(tmp_path: Path, console: str, cluster: LocalCluster) -> None:
    cluster.held = True
    asked = request(tmp_path / "root", console, partitions=("main", "small"))
    looking = asyncio.create_task(probe(cluster, asked))
    async with asyncio.timeout(60):
        await cluster.is_submitted.wait()
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
    assert sorted(cluster.cancelled) == sorted(cluster.jobs_)
    assert left(tmp_path / "root") == []


async def test_a_submit_that_nobody_saw_the_end_of_is_looked_up_and_taken_back(
    tmp_path: Path, console: str, cluster: LocalCluster
) -> None:
    cluster.held = cluster.lose_answer = True
    (finding,) = await probe(cluster, request(tmp_path / "root", console))
    assert finding.level == "error"
    assert cluster.cancelled == [1]


async def test_a_refusal_names_the_setting(tmp_path: Path, console: str, cluster: LocalCluster) -> None:
    cluster.refuse = SlurmError("refused", "Invalid account", 2045)
    (finding,) = await probe(cluster, request(tmp_path / "root", console))
    assert (finding.code, finding.detail) == ("probe-refused", "Invalid account (2045)")
    assert "TUNEPLANE_SLURM_ACCOUNT" in finding.hint
    assert cluster.cancelled == []


async def test_partitions_that_are_not_there(tmp_path: Path, console: str, cluster: LocalCluster) -> None:
    (finding,) = await probe(cluster, request(tmp_path / "root", console, partitions=("big",)))
    assert finding.code == "slurm-partition"
    assert "main, small" in finding.hint


async def test_no_card_is_asked_for_where_all_are_taken(tmp_path: Path, console: str, cluster: LocalCluster) -> None:
    cluster.nodes_ = (replace(NODE, gpus_used=8),)
    found = await probe(cluster, request(tmp_path / "root", console))
    assert cluster.submitted[0].components[0].gpus == 0
    assert "probe-cards" not in levels(found)


async def test_what_a_killed_doctor_left_is_removed(tmp_path: Path, console: str, cluster: LocalCluster) -> None:
    root = tmp_path / "root"
    old, young = ProbePlace(root), ProbePlace(root)
    old.make()
    young.make()
    long_ago = datetime.now(UTC) - timedelta(hours=2)
    os.utime(old.path, (long_ago.timestamp(), long_ago.timestamp()))
    waiting = frozenset({"PENDING"})
    mine = SlurmJob(7, "tp-probe-old", running.COMMENT, "me", waiting, submitted_at=long_ago)
    foreign = replace(mine, id=8, comment="not ours")
    over = replace(mine, id=9, states=frozenset({"COMPLETED"}))
    fresh = replace(mine, id=10, submitted_at=datetime.now(UTC))
    cluster.jobs_ = {job.id: job for job in (mine, foreign, over, fresh)}
    await probe(cluster, request(root, console))
    assert cluster.cancelled == [7]
    assert left(root) == [young.path.name]


async def test_a_probe_that_slurm_has_forgotten(tmp_path: Path, console: str, cluster: LocalCluster) -> None:
    class Forgetful(LocalCluster):
        async def job(self, job_id: int) -> list[SlurmJob]:
            return []

    forgetful = Forgetful(cluster.bin, held=True)
    (finding,) = await probe(forgetful, request(tmp_path / "root", console))
    assert (finding.code, finding.level) == ("probe-failed", "warning")


async def test_a_probe_that_ended_before_it_could_tell(
    tmp_path: Path, console: str, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "ARRIVAL_SECONDS", 0.0)
    cluster.shell = ("/bin/sh", "-c", "exit 1")
    (finding,) = await probe(cluster, request(tmp_path / "root", console))
    assert (finding.code, finding.level) == ("probe-failed", "error")
    assert "n1" in finding.hint


async def test_a_copy_of_the_storage_root_is_another_directory(
    tmp_path: Path, console: str, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer arrives, and holds another word than the console has written."""
    make = ProbePlace.make

    def stale(place: ProbePlace) -> None:
        make(place)
        (place.path / "console").write_text("of yesterday")

    monkeypatch.setattr(ProbePlace, "make", stale)
    (finding,) = await probe(cluster, request(tmp_path / "root", console))
    assert "another directory" in finding.text


async def test_the_answer_of_another_hand_is_no_answer(tmp_path: Path, console: str, cluster: LocalCluster) -> None:
    """A copy of the storage root that is not the console's, or a link instead of a file."""
    place = ProbePlace(tmp_path)
    place.make()
    assert place.read() is None
    (tmp_path / "secret").write_text("nonce=1\n")
    (place.path / "out" / "answer").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="Too many levels"):
        place.read()
    place.remove()
    assert not place.path.exists()
