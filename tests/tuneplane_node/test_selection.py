"""Which runtime runs the jobs: what `auto` finds, and that a choice once made is not lost with a daemon."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.services.containers import Engine as ContainerEngine
from tests.services.containers import import_image
from tests.tuneplane_node.bench import IMAGE, Bench
from tuneplane_node.engine import Engine, NodeError, RuntimeHandle


def host(tmp_path: Path) -> dict[str, str]:
    """A machine where no engine's usual socket exists for us to find."""
    return {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(tmp_path / "run")}


def engine(tmp_path: Path, **options: Any) -> Engine:
    nowhere = f"unix://{tmp_path}/nowhere.sock"
    values: dict[str, Any] = {"docker_host": nowhere, "podman_host": nowhere, "host_env": host(tmp_path), **options}
    return Engine("one", tmp_path / "state", **values)


async def test_without_an_engine_auto_means_processes(tmp_path: Path) -> None:
    made = engine(tmp_path)
    assert await made.runtime_name() == "process"
    assert not (tmp_path / "state").exists()  # looking writes nothing


async def test_auto_takes_docker_then_podman(
    docker_engine: ContainerEngine, podman_engine: ContainerEngine, tmp_path: Path
) -> None:
    both = engine(tmp_path, docker_host=docker_engine.url, podman_host=podman_engine.url)
    assert await both.runtime_name() == "docker"
    second = engine(tmp_path, podman_host=podman_engine.url)
    assert await second.runtime_name() == "podman"
    for made in (both, second):
        await made.close()


async def test_an_engine_that_was_used_stays_the_choice_when_it_is_down(
    docker_engine: ContainerEngine, tmp_path: Path
) -> None:
    import_image(docker_engine, IMAGE, {"PATH": "/usr/bin:/bin"})
    bench = Bench("auto", docker_engine.url, IMAGE, tmp_path)
    handle = await bench.launch("exit 0")
    assert handle.runtime == "docker"
    await bench.ended(handle)
    down = bench.new_engine(docker_host=f"unix://{tmp_path}/nowhere.sock")
    assert await down.runtime_name() == "docker"
    assert (await down.observe(handle)).state == "unknown"
    with pytest.raises(NodeError) as problem:
        await down.launch(bench.request("exit 0", "second"))
    assert problem.value.code == "engine-unreachable"
    with pytest.raises(NodeError):
        await down.owned()
    await bench.clean()


async def test_jobs_of_a_runtime_that_is_no_longer_chosen_are_still_seen(
    docker_engine: ContainerEngine, tmp_path: Path
) -> None:
    import_image(docker_engine, IMAGE, {"PATH": "/usr/bin:/bin"})
    bench = Bench("docker", docker_engine.url, IMAGE, tmp_path)
    old = await bench.launch(bench.waiting_job(3), "old")
    await bench.exists("ready")
    moved = bench.new_engine(runtime="process")
    new = await moved.launch(bench.request("exit 4", "new", image=None))
    assert {container.handle for container in await moved.owned()} == {old, new}
    bench.let_go()
    assert (await bench.ended(old, moved)).exit_code == 3
    assert (await bench.ended(new, moved)).exit_code == 4
    for handle in (old, new):
        assert await moved.cleanup(handle)


async def test_a_podman_behind_docker_s_address_works_under_that_name(
    podman_engine: ContainerEngine, tmp_path: Path
) -> None:
    """`podman-docker` puts Podman's socket where Docker's is."""
    import_image(podman_engine, IMAGE, {"PATH": "/usr/bin:/bin"})
    bench = Bench("docker", podman_engine.url, IMAGE, tmp_path)
    handle = await bench.launch("exit 5")
    assert handle.runtime == "docker"
    assert (await bench.ended(handle)).exit_code == 5
    assert "Podman" in (await bench.engine.check())[0].text
    await bench.clean()


async def test_the_addresses_of_the_engines_own_tools_are_known(tmp_path: Path) -> None:
    (tmp_path / "run/podman").mkdir(parents=True)
    made = Engine(
        "one",
        tmp_path / "state",
        runtime="docker",
        host_env={**host(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/d.sock"},
    )
    (finding,) = await made.check()
    assert f"unix://{tmp_path}/d.sock" in finding.text
    made = Engine(
        "one", tmp_path / "state", runtime="podman", podman_host=str(tmp_path / "p.sock"), host_env=host(tmp_path)
    )
    (finding,) = await made.check()
    assert f"unix://{tmp_path}/p.sock" in finding.text


@pytest.mark.parametrize(("options", "code"), [
    ({"runtime": "kubernetes"}, "setting-invalid"),
    ({"container_user": "root:wheel"}, "setting-invalid"),
    ({"container_user": "1:2:3"}, "setting-invalid"),
    ({"extra_mounts": "/a"}, "setting-invalid"),
    ({"simulated_gpus": "h200"}, "setting-invalid"),
])  # fmt: skip
def test_a_setting_that_makes_no_sense_is_refused_at_once(tmp_path: Path, options: dict[str, Any], code: str) -> None:
    with pytest.raises(NodeError) as refusal:
        engine(tmp_path, **options)
    assert refusal.value.code == code


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:2375", "http://x", "ssh://me@host", "unix://relative"])
async def test_an_engine_on_another_machine_is_refused(tmp_path: Path, address: str) -> None:
    made = engine(tmp_path, runtime="docker", docker_host=address)
    (finding,) = await made.check()
    assert finding.code == "engine-address"


async def test_a_handle_of_no_runtime_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NodeError) as refusal:
        await engine(tmp_path).observe(RuntimeHandle("kubernetes", "ab"))
    assert refusal.value.code == "request-invalid"


async def test_a_spoilt_memory_of_choices_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/runtimes.json").write_text("{")
    made = engine(tmp_path)
    (finding,) = await made.check()
    assert finding.code == "record-unusable"
    (tmp_path / "state/runtimes.json").write_text(json.dumps({"used": ["podman"]}))
    assert await engine(tmp_path).runtime_name() == "podman"
