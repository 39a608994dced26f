"""`tuneplane-node serve` as a process: what it refuses to start with, what its end does to jobs, and who takes them over."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services.ports import free_port
from tests.tuneplane_node.bench import PATIENCE, until, until_told
from tests.tuneplane_node.daemon.served import TOKEN, Daemon, make_certificate
from tuneplane_node.client import NodeClient, NodeUnreachableError
from tuneplane_node.engine import LABEL_ATTEMPT, LABEL_JOB, LaunchRequest, RuntimeHandle

pytestmark = pytest.mark.services  # by their number of processes

type Make = Callable[..., Daemon]


class Job:
    """A shell job that writes down that it began and waits for a file."""

    def __init__(self, folder: Path, name: str = "tp-job") -> None:
        self.folder, self.name = folder, name
        folder.mkdir(parents=True, exist_ok=True)

    def request(self, script: str = "") -> LaunchRequest:
        waiting = f"echo run >>{self.folder}/runs; while [ ! -e {self.folder}/go ]; do sleep 0.05; done; exit 5"
        return LaunchRequest(
            name=self.name, labels={LABEL_JOB: self.name, LABEL_ATTEMPT: "1"}, command=["sh", "-c", script or waiting]
        )

    @property
    def handle(self) -> RuntimeHandle:
        return RuntimeHandle("process", self.name)

    async def began(self) -> None:
        await until((self.folder / "runs").exists, bool)

    def let_go(self) -> None:
        (self.folder / "go").touch()

    @property
    def runs(self) -> int:
        path = self.folder / "runs"
        return path.read_text().count("run") if path.exists() else 0


async def ends_well(client: NodeClient, job: Job) -> None:
    """It was begun once, and its end is told."""
    job.let_go()
    ended = await until_told(lambda: client.observe(job.handle), lambda seen: seen.state == "exited")
    assert ended.exit_code == 5
    assert job.runs == 1


# --- what it refuses to start with ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "code", "exit_code"),
    [
        ({"TUNEPLANE_AGENT_TOKEN": ""}, "agent-token-missing", 2),
        ({"TUNEPLANE_AGENT_TOKEN": "short"}, "agent-token-invalid", 2),
        ({"TUNEPLANE_AGENT_TOKEN": TOKEN + "\n"}, "agent-token-invalid", 2),
        ({"TUNEPLANE_AGENT_TOKEN": "", "TUNEPLANE_AGENT_TOKEN_FILE": "/no/such/file"}, "agent-token-unreadable", 1),
        ({"TUNEPLANE_STORAGE_ROOT": ""}, "setting-missing", 2),
        ({"TUNEPLANE_STORAGE_ROOT": "relative/path"}, "setting-invalid", 2),
        ({"TUNEPLANE_NODE_PORT": "70000"}, "setting-invalid", 2),
        ({"TUNEPLANE_NODE_NAME": "two words"}, "setting-invalid", 2),
        ({"TUNEPLANE_CONSOLE_URL": "console:8642"}, "setting-invalid", 2),
        ({"TUNEPLANE_NODE_ADDRESS": "http://user:secret@node:8643"}, "setting-invalid", 2),
        ({"TUNEPLANE_RUNTIME": "magic"}, "setting-invalid", 2),
        ({"TUNEPLANE_SIMULATED_GPUS": "h200"}, "setting-invalid", 2),
        ({"TUNEPLANE_NODE_TLS_CERT": "/no/such/cert"}, "setting-missing", 2),
        ({"TUNEPLANE_NODE_TLS_CERT": "/no/cert", "TUNEPLANE_NODE_TLS_KEY": "/no/key"}, "tls-files", 1),
        ({"TUNEPLANE_NODE_HOST": "203.0.113.7"}, "port-taken", 1),
    ],
)
async def test_it_does_not_start_with_what_cannot_be(
    daemon_process: Make, settings: dict[str, str], code: str, exit_code: int
) -> None:
    daemon = daemon_process(**settings).spawn()
    assert await daemon.ended() == exit_code
    lines = [line for line in daemon.log.splitlines() if not line.startswith("    ")]
    (line,) = lines
    assert line.endswith(f"[{code}]")
    assert len(daemon.log.splitlines()) > 1, "what to do about it"
    assert "Traceback" not in daemon.log
    assert "user:secret" not in daemon.log
    assert TOKEN not in daemon.log


async def test_the_refusal_speaks_the_language_of_the_machine(daemon_process: Make) -> None:
    daemon = daemon_process(TUNEPLANE_AGENT_TOKEN="", TUNEPLANE_LANG="zh-Hans").spawn()
    assert await daemon.ended() == 2
    assert "没有设置 token" in daemon.log
    assert "openssl rand -hex 32" in daemon.log


async def test_a_port_that_is_taken_is_named(daemon_process: Make) -> None:
    first = await daemon_process("first").start()
    second = daemon_process("second", TUNEPLANE_NODE_PORT=str(first.port)).spawn()
    assert await second.ended() == 1
    assert str(first.port) in second.log
    assert "[port-taken]" in second.log


async def test_a_second_daemon_on_the_same_state_names_the_first(daemon_process: Make) -> None:
    first = await daemon_process("same").start()
    assert first.process is not None
    second = daemon_process("other", TUNEPLANE_NODE_STATE=str(first.folder / "state")).spawn()
    assert await second.ended() == 1
    assert "[daemon-running]" in second.log
    assert f"process {first.process.pid}" in second.log
    client = first.client()
    assert (await client.hello()).runtime == "process"
    await client.close()


async def test_a_state_that_cannot_be_written_is_told(daemon_process: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    daemon = daemon_process(TUNEPLANE_NODE_STATE=str(tmp_path / "file/state")).spawn()
    assert await daemon.ended() == 1
    assert "[state-unusable]" in daemon.log


async def test_a_damaged_identity_is_not_replaced(daemon_process: Make) -> None:
    """Another id would make strangers of the containers that run."""
    daemon = daemon_process()
    (daemon.folder / "state").mkdir(parents=True)
    (daemon.folder / "state/node-id").write_text("")
    assert await daemon.spawn().ended() == 1
    assert "[state-unusable]" in daemon.log


# --- its end is not the end of jobs (scenarios 4 and 5) --------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_jobs_outlive_the_daemon_and_the_next_one_takes_them_over(
    daemon_process: Make, tmp_path: Path, how: str
) -> None:
    daemon, job = await daemon_process().start(), Job(tmp_path / "job")
    client = daemon.client()
    hello = await client.hello()
    assert await client.launch(job.request()) == job.handle
    await job.began()
    assert await getattr(daemon, how)() == (0 if how == "stop" else -9)
    with pytest.raises(NodeUnreachableError) as problem:
        await client.observe(job.handle)
    assert problem.value.code == "node-unreachable"
    await client.close()

    await daemon.start()
    client = daemon.client()
    await daemon.says("Containers taken over: 1; running: 1.")
    again = await client.hello()
    assert again.node_id == hello.node_id
    assert again.started_at > hello.started_at
    (found,) = await client.containers()
    assert (found.handle, found.labels[LABEL_JOB], found.observed.state) == (str(job.handle), "tp-job", "running")
    assert await client.launch(job.request()) == job.handle
    await ends_well(client, job)
    await client.close()


async def test_how_a_job_ended_while_the_daemon_was_away_is_told_afterwards(
    daemon_process: Make, tmp_path: Path
) -> None:
    """Scenario 5, the node's side."""
    daemon, job = await daemon_process().start(), Job(tmp_path / "job")
    client = daemon.client()
    await client.launch(job.request(f"echo words; echo run >>{job.folder}/runs; while [ ! -e {job.folder}/go ]; do sleep 0.05; done; touch {job.folder}/over; exit 5"))  # fmt: skip
    await job.began()
    await client.close()
    await daemon.kill()
    job.let_go()
    await until((job.folder / "over").exists, bool)
    await daemon.start()
    client = daemon.client()
    await ends_well(client, job)
    assert await client.logs(job.handle) == b"words\n"
    assert await client.cleanup(job.handle)
    assert await client.containers() == []
    await client.close()


async def test_a_daemon_that_is_killed_at_any_moment_of_a_launch_starts_the_job_once(
    daemon_process: Make, tmp_path: Path
) -> None:
    """SIGKILL between any two steps: the moments are spread over the first third of a second of a launch; the console asks again."""
    port = str(free_port())
    daemon = daemon_process(TUNEPLANE_NODE_PORT=port)
    client = NodeClient(f"http://127.0.0.1:{port}", TOKEN)
    for number in range(4):
        job = Job(tmp_path / f"job-{number}", f"tp-job-{number}")
        await daemon.start()
        launching = asyncio.create_task(client.launch(job.request()))
        done, _pending = await asyncio.wait({launching}, timeout=number * 0.1)
        await daemon.kill()
        await asyncio.gather(launching, return_exceptions=True)
        assert done or launching.done()
        await daemon.start()
        assert await client.launch(job.request()) == job.handle
        await job.began()
        await ends_well(client, job)
        assert await client.cleanup(job.handle)
        await daemon.kill()
    await client.close()


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_stop_and_a_cleanup_that_a_daemon_had_begun_are_finished_by_the_next(
    daemon_process: Make, tmp_path: Path, how: str
) -> None:
    port = str(free_port())
    daemon, job = await daemon_process(TUNEPLANE_NODE_PORT=port).start(), Job(tmp_path / "job")
    client = NodeClient(f"http://127.0.0.1:{port}", TOKEN)
    script = f"trap 'touch {job.folder}/told' TERM; echo run >>{job.folder}/runs; while :; do sleep 0.05; done"
    await client.launch(job.request(script))
    await job.began()
    stopping = asyncio.create_task(client.stop(job.handle, 86_400))
    await until((job.folder / "told").exists, bool)
    if how == "stop":
        assert await daemon.stop() == 0
        assert "Traceback" not in daemon.log
    else:
        await daemon.kill()
    (problem,) = await asyncio.gather(stopping, return_exceptions=True)
    assert isinstance(problem, NodeUnreachableError)
    assert problem.code == "node-unreachable"
    await daemon.start()
    assert (await client.observe(job.handle)).state == "running"
    await client.stop(job.handle, 0.1)
    assert (await client.observe(job.handle)).exit_code == 137
    assert await client.cleanup_attempt("tp-job", 1)
    assert await client.containers() == []
    await client.close()


# --- while it serves --------------------------------------------------------------------------------------------------------


async def test_it_serves_over_tls_with_an_exchanged_token(daemon_process: Make, tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path / "tls")
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    daemon = await daemon_process(
        TUNEPLANE_AGENT_TOKEN="",
        TUNEPLANE_AGENT_TOKEN_FILE=str(file),
        TUNEPLANE_NODE_TLS_CERT=str(cert),
        TUNEPLANE_NODE_TLS_KEY=str(key),
    ).start()
    assert "serves at https://" in daemon.log
    address = f"https://127.0.0.1:{daemon.port}"
    client = NodeClient(address, TOKEN, ca_file=cert)
    assert (await client.hello()).node_id
    draft = tmp_path / "token.part"
    draft.write_text("another-" + TOKEN)
    draft.replace(file)
    with pytest.raises(NodeUnreachableError) as problem:
        await client.hello()
    assert problem.value.code == "node-token"
    later = NodeClient(address, "another-" + TOKEN, ca_file=cert)
    assert (await later.hello()).node_id
    await client.close()
    await later.close()
    assert TOKEN not in daemon.log


async def test_its_log_can_be_json(daemon_process: Make) -> None:
    daemon = await daemon_process(TUNEPLANE_NODE_LOG_FORMAT="json").start()
    await daemon.says("Containers taken over: 0")
    await daemon.stop()
    lines = [json.loads(line) for line in daemon.log.splitlines()]
    assert {"time", "level", "logger", "message"} <= set(lines[0])
    assert lines[-1]["message"] == "The daemon has ended. Running jobs go on."


async def test_idle_it_takes_little_memory(daemon_process: Make) -> None:
    """At most 80 MB resident, as a node's budget says; it is about 46."""
    daemon = await daemon_process(TUNEPLANE_SIMULATED_GPUS="h200:8", TUNEPLANE_CONSOLE_URL="http://127.0.0.1:9").start()
    client = daemon.client()
    for _ in range(20):
        await client.containers()
        await client.inventory()
        await client.sample()
    await client.close()
    assert daemon.process is not None
    assert resident_bytes(daemon.process.pid) <= 80_000_000


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_patience_is_longer_than_a_wait_of_the_daemon() -> None:
    from tuneplane_node.daemon.operations import WAIT_SECONDS

    assert WAIT_SECONDS < PATIENCE
