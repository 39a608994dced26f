"""What only Docker and Podman have to prove: how a container is made, and what others do to it meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.containers import Engine as ContainerEngine
from tests.services.containers import host_python_mounts, import_image
from tests.tuneplane_node.bench import Bench, until
from tuneplane_node.engine import LABEL_ATTEMPT, LABEL_INSTANCE, LABEL_JOB, LaunchRequest, Mount, NodeError


async def test_check_names_the_engine_and_its_version(container_bench: Bench) -> None:
    findings = {finding.code: finding for finding in await container_bench.engine.check()}
    ready = findings["engine-ready"]
    assert container_bench.runtime.capitalize() in ready.text
    assert container_bench.address in ready.text
    assert not [finding for finding in findings.values() if finding.level == "error"]


async def test_a_container_removed_behind_our_back_is_absent(container_bench: Bench) -> None:
    handle = await container_bench.launch(container_bench.waiting_job())
    with container_bench.api() as api:
        api.post(f"/containers/{handle.name}/kill").raise_for_status()
        api.delete(f"/containers/{handle.name}", params={"force": 1}).raise_for_status()
    assert (await container_bench.engine.observe(handle)).state == "absent"
    assert await container_bench.engine.owned() == []
    assert await container_bench.engine.cleanup(handle)


@pytest.mark.parametrize(("end", "code"), [("stop", 3), ("kill", 137)])
async def test_a_container_that_somebody_paused_runs_still_and_can_be_ended(
    container_bench: Bench, end: str, code: int
) -> None:
    script = f"trap 'exit 3' TERM; touch {container_bench.directory}/ready; while :; do sleep 0.05; done"
    handle = await container_bench.launch(script)
    await container_bench.exists("ready")
    with container_bench.api() as api:
        api.post(f"/containers/{handle.name}/pause").raise_for_status()
    seen = await container_bench.engine.observe(handle)
    assert (seen.state, seen.detail) == ("running", "paused")
    await (container_bench.engine.kill(handle) if end == "kill" else container_bench.engine.stop(handle, 30))
    assert (await container_bench.engine.observe(handle)).exit_code == code


async def test_a_container_that_was_created_but_never_started_is_taken_over(container_bench: Bench) -> None:
    request = container_bench.request(f"echo run >>{container_bench.directory}/runs; exit 8")
    labels = {**request.labels, LABEL_INSTANCE: container_bench.instance}
    body = {
        "Image": request.image,
        "Cmd": list(request.command),
        "Labels": labels,
        "HostConfig": {"Binds": [f"{mount.source}:{mount.target}" for mount in request.mounts], "NetworkMode": "host"},
    }
    with container_bench.api() as api:  # and then the launcher was killed
        api.post("/containers/create", params={"name": request.name}, json=body).raise_for_status()
    assert (await container_bench.engine.observe(container_bench.handle())).state == "created"
    assert len(await container_bench.engine.owned()) == 1
    handle = await container_bench.engine.launch(request)
    assert (await container_bench.ended(handle)).exit_code == 8
    assert (container_bench.directory / "runs").read_text() == "run\n"


async def test_a_container_is_made_without_privileges_and_with_its_limits(container_bench: Bench) -> None:
    handle = await container_bench.launch(container_bench.waiting_job(), cpus=1.5, memory_bytes=512 * 1024 * 1024)
    with container_bench.api() as api:
        made = api.get(f"/containers/{handle.name}/json").raise_for_status().json()
    host = made["HostConfig"]
    assert not host["Privileged"]
    assert not host["AutoRemove"]
    assert host["NetworkMode"] == "host"
    assert any(option.startswith("no-new-privileges") for option in host["SecurityOpt"])
    assert host["Memory"] == host["MemorySwap"] == 512 * 1024 * 1024
    assert host["NanoCpus"] == 1_500_000_000
    assert host["ShmSize"] == 256 * 1024 * 1024
    assert host["PidsLimit"] > 2048
    assert host["RestartPolicy"]["Name"] in ("", "no")
    files = next(limit for limit in host["Ulimits"] if limit["Name"].lower().endswith("nofile"))
    assert files["Soft"] == files["Hard"] <= 20_000
    labels = made["Config"]["Labels"]
    assert {labels[LABEL_JOB], labels[LABEL_ATTEMPT]} == {"0123456789abcdef", "1"}
    assert labels[LABEL_INSTANCE] == container_bench.instance
    await container_bench.engine.kill(handle)


async def test_memory_that_is_not_there_kills_the_job_not_the_machine(container_bench: Bench) -> None:
    hungry = "x=a; while :; do x=$x$x; done"
    handle = await container_bench.launch(f"sh -c '{hungry}'; exit $?", memory_bytes=64 * 1024 * 1024)
    ended = await container_bench.ended(handle)
    assert ended.exit_code == 137
    # Podman 4 cannot tell; what it says then is that nobody knows, not no.
    assert ended.oom_killed is (True if container_bench.runtime == "docker" else None)


async def test_what_is_mounted_read_only_stays_as_it_is(container_bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/kept").write_text("kept")
    script = f"cat /data/kept >{container_bench.directory}/seen; echo spoilt >/data/kept; touch /data/new"
    handle = await container_bench.launch(script, mounts=[Mount(str(tmp_path / "data"), "/data", read_only=True)])
    assert (await container_bench.ended(handle)).exit_code != 0
    assert (container_bench.directory / "seen").read_text() == "kept"
    assert (tmp_path / "data/kept").read_text() == "kept"
    assert not (tmp_path / "data/new").exists()


async def test_extra_mounts_of_the_machine_are_in_every_container_and_give_way_to_the_job_s(
    container_bench: Bench, tmp_path: Path
) -> None:
    for name in ("models", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "name").write_text(name)
    engine = container_bench.new_engine(extra_mounts=f"{tmp_path}/models:/models:ro,{tmp_path}/models:/data")
    request = container_bench.request(
        f"cat /models/name /data/name >{container_bench.directory}/seen", mounts=[Mount(f"{tmp_path}/other", "/data")]
    )
    await container_bench.ended(await engine.launch(request))
    assert (container_bench.directory / "seen").read_text() == "modelsother"


async def test_the_entry_point_of_an_image_does_not_run(container_bench: Bench) -> None:
    reference = "localhost/tuneplane-test/entry:1"
    engine = ContainerEngine(container_bench.runtime, container_bench.address.removeprefix("unix://"))
    import_image(engine, reference, {"PATH": "/usr/bin:/bin"})
    with container_bench.api() as api:
        base = api.post("/containers/create", json={"Image": reference, "Entrypoint": ["/bin/false"], "Cmd": ["x"]})
        container = base.raise_for_status().json()["Id"]
        commit = {"container": container, "repo": "localhost/tuneplane-test/entry", "tag": "2"}
        api.post("/commit", params=commit, json={}).raise_for_status()
        api.delete(f"/containers/{container}", params={"force": 1})
        made = api.get("/images/localhost/tuneplane-test/entry:2/json").raise_for_status().json()
    assert made["Config"]["Entrypoint"] == ["/bin/false"]
    handle = await container_bench.launch("exit 5", image="localhost/tuneplane-test/entry:2")
    assert (await container_bench.ended(handle)).exit_code == 5


@pytest.mark.parametrize(("user", "expected"), [("1234:2345", "1234 2345"), ("image", "0 0"), ("", "0 0")])
async def test_it_runs_as_the_user_that_was_set(container_bench: Bench, user: str, expected: str) -> None:
    engine = container_bench.new_engine(container_user=user)
    container_bench.directory.chmod(0o777)
    handle = await engine.launch(container_bench.request(f"echo $(id -u) $(id -g) >{container_bench.directory}/user"))
    await container_bench.ended(handle)
    assert (container_bench.directory / "user").read_text().strip() == expected


async def test_real_cards_are_refused_where_the_engine_cannot_give_any(container_bench: Bench) -> None:
    with pytest.raises(NodeError) as refusal:
        await container_bench.launch("exit 0", gpus=(0,))
    assert refusal.value.code == "gpu-unsupported"
    assert not refusal.value.retry
    assert await container_bench.engine.owned() == []


async def test_a_container_needs_an_image(container_bench: Bench) -> None:
    with pytest.raises(NodeError) as refusal:
        await container_bench.launch("exit 0", image=None)
    assert refusal.value.code == "image-missing"


async def test_the_network_is_the_machine_s(container_bench: Bench) -> None:
    """Jobs reach a console on 127.0.0.1."""
    served = asyncio.Event()

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello\n")
        await writer.drain()
        writer.close()
        served.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        handle = await container_bench.launch(f"nc 127.0.0.1 {port} </dev/null >{container_bench.directory}/heard")
        await container_bench.ended(handle)
    assert (container_bench.directory / "heard").read_text() == "hello\n"
    assert served.is_set()


async def test_finished_processes_are_collected_or_the_check_says_who_has_to(container_bench: Bench) -> None:
    """Two orphans end under the first process; afterwards the container has no zombie, as /proc in it tells."""
    if "engine-no-init" in {finding.code for finding in await container_bench.engine.check()}:
        assert container_bench.runtime == "podman"  # Docker brings its own
        return
    mark = container_bench.directory / "orphan"
    zombies = "grep -l '^State:.Z' /proc/[0-9]*/status"
    script = (
        f"for i in 1 2; do (sh -c 'echo x >>{mark}' &); done; while [ $(wc -l <{mark}) != 2 ]; do sleep 0.02; done; "
        f"for look in $(seq 600); do {zombies} || exit 0; sleep 0.1; done; exit 1"
    )
    mark.touch()
    assert (await container_bench.ended(await container_bench.launch(script))).exit_code == 0


async def test_a_python_environment_of_the_machine_runs_in_a_container(container_bench: Bench, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    base = getattr(sys, "_base_executable", sys.executable)
    make = await asyncio.to_thread(
        subprocess.run, [base, "-m", "venv", "--without-pip", str(environment)], capture_output=True, check=True
    )
    assert make.returncode == 0
    code = "import ctypes, json, sqlite3, ssl, sys, zlib; print(json.dumps([sys.prefix, sys.version_info[:2]]))"
    handle = await container_bench.launch(
        "",
        command=["sh", "-c", f"{environment}/bin/python3 -I -c '{code}' >{container_bench.directory}/answer 2>&1"],
        mounts=[Mount(path, path, read_only=True) for path in host_python_mounts(environment / "bin/python")],
    )
    ended = await container_bench.ended(handle)
    answer = (container_bench.directory / "answer").read_text()
    assert ended.exit_code == 0, answer
    assert answer == f'["{environment}", [{sys.version_info[0]}, {sys.version_info[1]}]]\n'


async def test_many_short_containers_leave_nothing_behind(container_bench: Bench) -> None:
    def open_files() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    async def run_one(number: int) -> None:
        handle = await container_bench.launch("exit 0", f"job-{number}")
        assert (await container_bench.ended(handle)).exit_code == 0
        assert await container_bench.engine.cleanup(handle)

    await run_one(0)
    files = open_files()
    for number in range(1, 11):
        await run_one(number)
    await until(open_files, lambda count: count <= files)
    assert await container_bench.engine.owned() == []
    with container_bench.api() as api:
        names = [name for entry in api.get("/containers/json?all=1").json() for name in entry["Names"]]
    assert [name for name in names if container_bench.name("job") in name] == []


async def test_an_engine_that_is_not_there_is_unknown_never_absent(tmp_path: Path) -> None:
    bench = Bench("docker", f"unix://{tmp_path}/nobody.sock", "any:1", tmp_path)
    assert (await bench.engine.observe(bench.handle())).state == "unknown"
    assert not await bench.engine.cleanup(bench.handle())
    request = LaunchRequest(name="aa", labels={LABEL_JOB: "j", LABEL_ATTEMPT: "1"}, command=["x"], image="any:1")
    for asking in (
        bench.engine.launch(request),
        bench.engine.owned(),
        bench.engine.stop(bench.handle(), 1),
        bench.engine.kill(bench.handle()),
        bench.engine.logs(bench.handle()),
    ):
        with pytest.raises(NodeError) as problem:
            await asking
        assert problem.value.code == "engine-unreachable"
        assert problem.value.retry
    (finding,) = await bench.engine.check()
    assert (finding.code, finding.level) == ("engine-unreachable", "error")
    await bench.engine.close()
