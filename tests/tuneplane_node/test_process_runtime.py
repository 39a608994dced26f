"""What only process mode has to prove: its supervisor, its records, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from tests.tuneplane_node.bench import Bench, command_lines, is_held, until
from tuneplane_node.engine import LABEL_INSTANCE, Mount, NodeError
from tuneplane_node.engine.runtimes import process, process_records
from tuneplane_node.engine.runtimes.process_records import ProcessRecords, Started
from tuneplane_node.engine.supervisor import procfs, supervisor_command
from tuneplane_node.engine.supervisor.procfs import ProcessIdentity


def started(bench: Bench) -> Started:
    record = ProcessRecords(bench.state_root / "processes").get(bench.name())
    assert record is not None
    found = record.started()
    assert found is not None
    return found


def changed_supervisor(tmp_path: Path, changes: dict[str, str]) -> Path:
    """A copy of the supervisor's program with these pieces of its text replaced."""
    copy = tmp_path / "supervisor"
    copy.mkdir()
    texts = {path.name: path.read_text() for path in Path(procfs.__file__).parent.glob("*.py")}
    for before, after in changes.items():
        assert texts["watch.py"].count(before) == 1
        texts["watch.py"] = texts["watch.py"].replace(before, after)
    for name, text in texts.items():
        (copy / name).write_text(text)
    return copy


async def test_check_says_that_it_isolates_nothing(process_bench: Bench) -> None:
    (finding,) = await process_bench.engine.check()
    assert (finding.code, finding.level) == ("process-isolates-nothing", "warning")
    assert "isolates nothing" in finding.text


async def test_the_supervisor_hangs_on_nobody(process_bench: Bench) -> None:
    await process_bench.launch(process_bench.waiting_job())
    supervisor = started(process_bench).supervisor
    assert os.getpgid(supervisor.pid) == supervisor.pid != os.getpgid(0)
    assert os.getsid(supervisor.pid) == supervisor.pid
    assert procfs._stat(supervisor.pid).parent != os.getpid()


async def test_a_signal_to_the_supervisor_does_not_end_the_watch(process_bench: Bench) -> None:
    handle = await process_bench.launch(process_bench.waiting_job(6))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        started(process_bench).supervisor.signal(number)
    process_bench.let_go()
    assert (await process_bench.ended(handle)).exit_code == 6


async def test_without_its_supervisor_a_job_runs_on_and_its_end_is_not_guessed(process_bench: Bench) -> None:
    handle = await process_bench.launch(process_bench.waiting_job(3))
    found = started(process_bench)
    found.supervisor.signal(signal.SIGKILL)
    await until(found.supervisor.alive, lambda alive: not alive)
    seen = await process_bench.engine.observe(handle)
    assert (seen.state, seen.detail) == ("running", "its supervisor is gone")
    process_bench.let_go()
    ended = await process_bench.ended(handle)
    assert (ended.exit_code, ended.signal) == (None, None)
    assert await process_bench.engine.cleanup(handle)


async def test_a_launcher_that_dies_before_the_answer_takes_no_watch_with_it(tmp_path: Path) -> None:
    """The supervisor then writes its answer into a pipe that nobody reads."""
    record = tmp_path / "record"
    record.mkdir()
    launcher, answers = os.pipe()
    os.close(launcher)
    launch = {"command": ["sh", "-c", "exit 7"], "env": {"PATH": os.defpath}, "workdir": str(record)}
    process = await asyncio.create_subprocess_exec(
        *supervisor_command(record), stdin=asyncio.subprocess.PIPE, stdout=answers, env={"PATH": os.defpath}
    )
    os.close(answers)
    await process.communicate(json.dumps(launch).encode())
    await until((record / "exit.json").exists, bool)
    assert json.loads((record / "exit.json").read_text())["exit_code"] == 7


async def test_a_supervisor_that_dies_before_its_answer_has_started_the_job_once(
    process_bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second launch would run the command beside the first, which no record knows any more."""
    answer = '_answer_and_close(status="started")'
    folder = changed_supervisor(tmp_path, {answer: "os.kill(os.getpid(), signal.SIGKILL)"})
    monkeypatch.setattr(process, "supervisor_command", lambda record: supervisor_command(record, folder))
    request = process_bench.request(f"echo x >>{process_bench.directory}/runs; {process_bench.waiting_job()}")
    handle = await process_bench.engine.launch(request)
    assert await process_bench.engine.launch(request) == handle
    await process_bench.exists("ready")
    assert (await process_bench.engine.observe(handle)).state == "running"
    process_bench.let_go()
    await process_bench.ended(handle)
    assert (process_bench.directory / "runs").read_text() == "x\n"


async def test_a_supervisor_that_dies_before_the_start_leaves_nothing(
    process_bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = changed_supervisor(
        tmp_path, {"    identities = {": "    os.kill(os.getpid(), signal.SIGKILL)\n    identities = {"}
    )
    monkeypatch.setattr(process, "supervisor_command", lambda record: supervisor_command(record, folder))
    with pytest.raises(NodeError) as problem:
        await process_bench.launch(f"touch {process_bench.directory}/ran")
    assert (problem.value.code, problem.value.retry) == ("supervisor-failed", True)
    assert await process_bench.engine.owned() == []
    assert not (process_bench.directory / "ran").exists()


async def test_what_escaped_from_a_dead_supervisor_is_found_and_killed(process_bench: Bench) -> None:
    fifo = process_bench.fifo("held")
    escaped = f"setsid sh -c 'exec 3<>{fifo}; touch {process_bench.directory}/ready; while :; do sleep 1; done'"
    handle = await process_bench.launch(f"({escaped} &); while :; do sleep 1; done")
    await process_bench.exists("ready")
    found = started(process_bench)
    found.supervisor.signal(signal.SIGKILL)
    found.leader.signal(signal.SIGKILL)
    await until(found.alive, lambda alive: not alive)
    assert is_held(fifo)
    assert (await process_bench.engine.observe(handle)).state == "running"
    await process_bench.engine.stop(handle, 0.1)
    assert not is_held(fifo)
    assert await process_bench.engine.cleanup(handle)


async def test_a_reused_pid_is_nobody_of_ours(process_bench: Bench) -> None:
    handle = await process_bench.launch(process_bench.waiting_job())
    await process_bench.engine.kill(handle)
    directory = process_bench.state_root / "processes" / process_bench.name()
    (directory / "exit.json").unlink()
    stranger = await asyncio.create_subprocess_exec("sleep", "600")
    value = json.loads((directory / "started.json").read_text())
    value["leader"]["pid"] = value["supervisor"]["pid"] = stranger.pid
    (directory / "started.json").write_text(json.dumps(value))
    assert (await process_bench.engine.observe(handle)).state == "exited"
    await process_bench.engine.stop(handle, 0.1)
    await process_bench.engine.kill(handle)
    assert await process_bench.engine.cleanup(handle)
    assert stranger.returncode is None
    os.kill(stranger.pid, 0)
    stranger.kill()
    await stranger.wait()


async def test_another_boot_means_that_it_ended(process_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = await process_bench.launch(process_bench.waiting_job())
    identity = started(process_bench).leader
    monkeypatch.setattr(procfs, "boot_id", lambda: "another")
    assert not identity.alive()
    monkeypatch.undo()
    assert identity.alive()
    await process_bench.engine.kill(handle)


async def test_a_launcher_that_died_before_the_start_is_taken_over(process_bench: Bench) -> None:
    request = process_bench.request("exit 8")
    labels = {**request.labels, LABEL_INSTANCE: process_bench.instance}
    ProcessRecords(process_bench.state_root / "processes").create(
        process_bench.request("exit 8", labels=labels)
    )  # and the launcher is gone
    assert (await process_bench.engine.observe(process_bench.handle())).state == "created"
    assert len(await process_bench.engine.owned()) == 1
    handle = await process_bench.engine.launch(request)
    assert (await process_bench.ended(handle)).exit_code == 8


async def test_half_a_launch_starts_nothing(process_bench: Bench, tmp_path: Path) -> None:
    whole = json.dumps({"command": ["touch", str(tmp_path / "ran")], "env": {}, "workdir": "/"})
    record = tmp_path / "record"
    record.mkdir()
    supervisor = await asyncio.create_subprocess_exec(
        *supervisor_command(record),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, _ = await supervisor.communicate(whole[:-5].encode())
    assert supervisor.returncode == 1
    assert output == b""
    assert list(record.iterdir()) == []
    assert not (tmp_path / "ran").exists()


async def test_what_a_launcher_leaks_into_the_supervisor_is_let_go(process_bench: Bench, tmp_path: Path) -> None:
    """uvloop does: the launcher would hear the end of the answer only when the command has ended."""
    launch = {"command": ["sh", "-c", process_bench.waiting_job()], "env": dict(os.environ), "workdir": "/"}
    record = tmp_path / "record"
    record.mkdir()
    answer_read, answer_write = os.pipe()
    supervisor = await asyncio.create_subprocess_exec(
        *supervisor_command(record), stdin=asyncio.subprocess.PIPE, stdout=answer_write, pass_fds=(answer_write,)
    )
    os.close(answer_write)
    await supervisor.communicate(json.dumps(launch).encode())
    with os.fdopen(answer_read, "rb") as pipe:
        async with asyncio.timeout(60):
            assert json.loads(await asyncio.to_thread(pipe.read)) == {"status": "started"}
    assert not (record / "exit.json").exists()
    process_bench.let_go()
    await until((record / "exit.json").exists, bool)


async def test_two_supervisors_of_one_record_run_one_command(process_bench: Bench, tmp_path: Path) -> None:
    launch = json.dumps({"command": ["sh", "-c", f"echo x >>{tmp_path}/runs; {process_bench.waiting_job()}"],
                         "env": dict(os.environ), "workdir": "/"}).encode()  # fmt: skip
    record = tmp_path / "record"
    record.mkdir()

    async def supervise() -> bytes:
        process = await asyncio.create_subprocess_exec(
            *supervisor_command(record),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return (await process.communicate(launch))[0]

    answers = await asyncio.gather(*(supervise() for _ in range(4)))
    statuses = sorted(json.loads(answer)["status"] for answer in answers)
    assert statuses == ["already", "already", "already", "started"]
    process_bench.let_go()
    await until((record / "exit.json").exists, bool)
    assert (tmp_path / "runs").read_text() == "x\n"
    assert json.loads(await supervise())["status"] == "already"


async def test_a_record_that_cannot_be_read_is_unknown_not_absent(process_bench: Bench) -> None:
    handle = await process_bench.launch("exit 0")
    await process_bench.ended(handle)
    other = await process_bench.launch("exit 0", "other")
    directory = process_bench.state_root / "processes" / process_bench.name()
    for name in ("exit.json", "request.json"):
        (directory / name).write_text("{broken")
        assert (await process_bench.engine.observe(handle)).state == "unknown"
    assert not await process_bench.engine.cleanup(handle)
    assert directory.exists()
    with pytest.raises(NodeError) as problem:
        await process_bench.engine.stop(handle, 0)
    assert problem.value.code == "record-unusable"
    assert [container.handle for container in await process_bench.engine.owned()] == [other]


async def test_what_a_crash_left_is_swept(process_bench: Bench) -> None:
    root = process_bench.state_root / "processes"
    for name in (".gone-job-1", ".new-job-2", ".new-job-3"):
        (root / name).mkdir(parents=True)
        (root / name / "request.json").write_text("{}")
    os.utime(root / ".new-job-2", (0, 0))
    assert await process_bench.engine.owned() == []
    assert [path.name for path in root.iterdir()] == [".new-job-3"]  # maybe being made right now


async def test_the_console_s_own_environment_stays_with_it(process_bench: Bench) -> None:
    host = {"PATH": os.environ["PATH"], "HOME": "/somewhere", "TUNEPLANE_WEB_JWT_SECRET": "x" * 40, "LANG": "C.UTF-8"}
    engine = process_bench.new_engine(host_env=host)
    await process_bench.ended(await engine.launch(process_bench.request(f"env >{process_bench.directory}/env")))
    text = (process_bench.directory / "env").read_text()
    assert "HOME=/somewhere" in text
    assert "TUNEPLANE_WEB_JWT_SECRET" not in text
    assert f"{sys.prefix}/bin" not in text


async def test_an_environment_comes_first_on_the_path(process_bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "trl-1.16/bin").mkdir(parents=True)
    (tmp_path / "trl-1.16/bin/python3").write_text("#!/bin/sh\necho the environment\n")
    (tmp_path / "trl-1.16/bin/python3").chmod(0o755)
    handle = await process_bench.launch("python3", image=str(tmp_path / "trl-1.16"))
    await process_bench.ended(handle)
    assert await process_bench.engine.logs(handle) == b"the environment\n"


async def test_an_environment_that_is_not_there_is_told_with_the_command_that_builds_it(process_bench: Bench) -> None:
    with pytest.raises(NodeError) as refusal:
        await process_bench.launch("exit 0", image=str(process_bench.directory / "trl-1.16"))
    assert refusal.value.code == "runtime-missing"
    assert "tuneplane-server runtime build trl-1.16" in refusal.value.hint()
    assert await process_bench.engine.owned() == []


async def test_an_environment_whose_python_is_on_another_machine_is_told_with_the_path_that_is_missing(
    process_bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "trl-1.16/bin").mkdir(parents=True)
    (tmp_path / "trl-1.16/bin/python3").symlink_to(tmp_path / "pythons/bin/python3.11")
    with pytest.raises(NodeError) as refusal:
        await process_bench.launch("exit 0", image=str(tmp_path / "trl-1.16"))
    assert refusal.value.code == "runtime-missing"
    assert str(tmp_path / "pythons/bin/python3.11") in refusal.value.detail


async def test_a_mount_under_another_path_is_refused(process_bench: Bench) -> None:
    with pytest.raises(NodeError) as refusal:
        await process_bench.launch("exit 0", mounts=[Mount(str(process_bench.directory), "/data")])
    assert refusal.value.code == "mount-unsupported"


async def test_a_missing_working_directory_is_told_and_leaves_nothing(process_bench: Bench) -> None:
    with pytest.raises(NodeError) as refusal:
        await process_bench.launch("exit 0", workdir="/not/there")
    assert refusal.value.code == "workdir-missing"
    assert await process_bench.engine.owned() == []
    assert list((process_bench.state_root / "processes").iterdir()) == []


async def test_state_that_cannot_be_written_is_told(process_bench: Bench) -> None:
    process_bench.state_root.write_text("a file where the directory should be")
    with pytest.raises(NodeError) as refusal:
        await process_bench.launch("exit 0")
    assert refusal.value.code == "record-unusable"
    process_bench.state_root.unlink()


async def test_output_is_kept_up_to_a_bound(
    process_bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"MAX_LOG = 8 * 1024 * 1024": "MAX_LOG = 64 * 1024", "TICK_SECONDS = 2.0": "TICK_SECONDS = 0.02"}
    copy = changed_supervisor(tmp_path, changes)
    monkeypatch.setattr(process, "supervisor_command", lambda record: supervisor_command(record, copy))
    flood = "i=0; while [ $i -lt 3000 ]; do echo $i 0123456789012345678901234567890123456789012345678901234567890123456789; i=$((i+1)); done"
    handle = await process_bench.launch(f"{flood}; sleep 0.1; {flood}; {process_bench.waiting_job()}")
    await process_bench.exists("ready")
    directory = process_bench.state_root / "processes" / process_bench.name()
    await until(lambda: (directory / "output.log").stat().st_size, lambda size: size <= 64 * 1024)
    assert (directory / "output.log.1").stat().st_size <= 64 * 1024
    # What is printed in the moment of cutting may be lost; what was kept is what is shown.
    kept = (directory / "output.log.1").read_bytes() + (directory / "output.log").read_bytes()
    text = await process_bench.engine.logs(handle, 1000)
    assert len(text) == 1000
    assert kept.endswith(text)
    assert b" 0123456789" in text
    process_bench.let_go()
    await process_bench.ended(handle)


async def test_many_short_jobs_leave_nothing_behind(
    process_bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 34, in small: open files, temporary files, zombies, records and processes stay as they were."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    engine = process_bench.new_engine(host_env={**os.environ, "TMPDIR": str(temporary)})

    async def run_one(number: int) -> None:
        handle = await engine.launch(process_bench.request("sh -c 'sleep 0.01 & exit 0'; exit 0", f"job-{number}"))
        assert (await process_bench.ended(handle)).exit_code == 0
        assert await engine.cleanup(handle)

    await run_one(0)  # whatever is made once is made now
    gc.collect()
    files, children = open_files(), children_of(os.getpid())
    for first in range(1, 101, 5):
        await asyncio.gather(*(run_one(number) for number in range(first, first + 5)))
    gc.collect()
    await until(open_files, lambda count: count <= files)  # pipes are closed a moment after a process has ended
    assert list(temporary.iterdir()) == []
    assert list((process_bench.state_root / "processes").iterdir()) == []
    mine = str(process_bench.state_root)
    await until(lambda: [line for _pid, line in command_lines() if mine in line], lambda lines: lines == [])
    await until(lambda: children_of(os.getpid()) - children, lambda left: left == set())


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def children_of(pid: int) -> set[int]:
    """Living children and zombies alike."""
    return {stat.pid for stat in procfs.every_process() if stat.parent == pid}


async def test_a_process_is_told_from_the_next_one_with_its_pid() -> None:
    sleeper = await asyncio.create_subprocess_exec("sleep", "600")
    identity = ProcessIdentity.of(sleeper.pid)
    assert ProcessIdentity.from_json(identity.to_json()) == identity
    assert identity.alive()
    later = ProcessIdentity(identity.pid, identity.start_time + 1, identity.boot_id)
    assert not later.alive()
    assert later.open() is None
    assert not later.signal(signal.SIGKILL)
    assert identity.signal(signal.SIGKILL)
    await sleeper.wait()
    assert not identity.alive()
    assert not identity.signal(signal.SIGTERM)
    with pytest.raises(ProcessLookupError):
        ProcessIdentity.of(sleeper.pid)


async def test_a_job_that_will_not_die_is_not_called_gone(
    process_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = await process_bench.launch(process_bench.waiting_job())
    monkeypatch.setattr("tuneplane_node.engine.runtimes.process.KILL_SECONDS", 0.0)
    monkeypatch.setattr(process_records.Record, "kill_members", lambda _self: False)  # as one stuck in the kernel
    with pytest.raises(NodeError) as problem:
        await process_bench.engine.kill(handle)
    assert problem.value.code == "still-running"
    assert not await process_bench.engine.cleanup(handle)
    monkeypatch.undo()
    assert await process_bench.engine.cleanup(handle)
