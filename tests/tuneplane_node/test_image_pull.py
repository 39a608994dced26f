"""Scenario 22: an image that cannot be had is refused in bounded time, for the true reason, on real engines."""

from __future__ import annotations

import base64
import json
import re
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.services.containers import Engine as ContainerEngine
from tests.tuneplane_node.bench import Bench
from tests.tuneplane_node.dockerd import Daemon
from tests.tuneplane_node.podmans import podman_home, serving_podman
from tests.tuneplane_node.registry import Registry, serving
from tuneplane_node.engine import NodeError

pytestmark = pytest.mark.services


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving() as made:
        yield made


@pytest.fixture
def trusting_podman(monkeypatch: pytest.MonkeyPatch) -> Iterator[ContainerEngine]:
    """A Podman service that talks to registries on 127.0.0.1 without TLS, as Docker does by itself."""
    with podman_home() as home:
        settings = home / "registries.conf"
        settings.write_text('[[registry]]\nprefix = "127.0.0.1"\nlocation = "127.0.0.1"\ninsecure = true\n')
        monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(settings))
        with serving_podman(home) as engine:
            yield engine


@pytest.fixture(params=["docker", "podman"])
async def pulling(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """Runs the test on both engines, each able to speak to the registry of the test."""
    name = "docker_engine" if request.param == "docker" else "trusting_podman"
    engine: ContainerEngine = request.getfixturevalue(name)
    return Bench(request.param, engine.url, None, tmp_path)


async def refusal(bench: Bench, image: str, **options: Any) -> NodeError:
    with pytest.raises(NodeError) as problem:
        await bench.new_engine(**options).launch(bench.request("exit 0", image=image))
    assert await bench.engine.owned() == []
    return problem.value


async def test_an_image_is_pulled_once_and_then_used_without_its_registry(pulling: Bench, registry: Registry) -> None:
    image = registry.reference("good")
    handles = [await pulling.launch("exit 5", f"job-{number}", image=image) for number in range(2)]
    assert [(await pulling.ended(handle)).exit_code for handle in handles] == [5, 5]
    assert len(registry.pulls) == 1
    registry.close()
    third = await pulling.launch("exit 6", "job-3", image=image)
    assert (await pulling.ended(third)).exit_code == 6
    with pulling.api() as api:
        for number in ("job-0", "job-1", "job-3"):
            api.delete(f"/containers/{pulling.name(number)}", params={"force": 1})
        api.delete(f"/images/{image}")
    await pulling.clean()


@pytest.mark.parametrize(("repository", "code", "blame"), [
    ("missing", "image-not-found", "user"),
    ("limited", "image-rate-limited", "infra"),
])  # fmt: skip
async def test_what_a_registry_refuses_is_told_apart(
    pulling: Bench, registry: Registry, repository: str, code: str, blame: str
) -> None:
    """Scenario 22: 404, and a rate limit."""
    problem = await refusal(pulling, registry.reference(repository))
    assert (problem.code, problem.blame) == (code, blame), problem.detail
    assert registry.host in problem.text()
    assert problem.hint()


async def test_a_registry_that_says_nothing_is_given_up(pulling: Bench, registry: Registry) -> None:
    """Scenario 22: in bounded time."""
    problem = await refusal(pulling, registry.reference("hanging"), pull_seconds=1.0)
    assert (problem.code, problem.retry) == ("image-pull-timeout", True)


async def test_a_registry_that_is_not_there_is_told(pulling: Bench) -> None:
    problem = await refusal(pulling, "127.0.0.1:9/nobody/home:1")
    assert problem.code == "image-registry-unreachable", problem.detail


async def test_the_login_of_the_machine_is_used(pulling: Bench, tmp_path: Path) -> None:
    """Scenario 22: 401, until the machine is logged in."""
    with serving(locked=True) as registry:
        image = registry.reference("good")
        config = tmp_path / "config.json"
        wrong = await refusal(pulling, image, docker_config=config)
        assert wrong.code == "image-unauthorized", wrong.detail
        config.write_text(json.dumps({"auths": {registry.host: {"auth": base64.b64encode(b"me:secret").decode()}}}))
        engine = pulling.new_engine(docker_config=config)
        handle = await engine.launch(pulling.request("exit 0", image=image))
        assert (await pulling.ended(handle)).exit_code == 0
    await pulling.clean()
    with pulling.api() as api:
        api.delete(f"/images/{image}").raise_for_status()


async def test_a_registry_without_tls_is_not_trusted(
    podman_engine: ContainerEngine, registry: Registry, tmp_path: Path
) -> None:
    bench = Bench("podman", podman_engine.url, None, tmp_path)
    problem = await refusal(bench, registry.reference("good"))
    assert problem.code == "image-tls", problem.detail


async def test_a_certificate_of_nobody_is_not_trusted(docker_engine: ContainerEngine, tmp_path: Path) -> None:
    """Scenario 22: TLS."""
    address = machine_address()
    with serving(address, self_signed(tmp_path)) as registry:
        bench = Bench("docker", docker_engine.url, None, tmp_path)
        problem = await refusal(bench, registry.reference("good"))
    assert problem.code == "image-tls", problem.detail


async def test_a_disk_without_space_is_told(small_daemon: Daemon, registry: Registry, tmp_path: Path) -> None:
    """Scenario 22: no space left."""
    bench = Bench("docker", f"unix://{small_daemon.socket}", None, tmp_path)
    problem = await refusal(bench, registry.reference("large"))
    assert problem.code == "image-disk-full", problem.detail


@pytest.fixture
def small_daemon(daemon_home: Path) -> Iterator[Daemon]:
    """A Docker daemon whose disk holds 24 MB."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(daemon_home)], check=True, timeout=60)
    try:
        made = Daemon(daemon_home)
        yield made
        made.end()
    finally:
        subprocess.run(["umount", "-l", str(daemon_home)], check=False, timeout=60)


def machine_address() -> str:
    """An address of this machine beside 127.0.0.1, which Docker trusts without a certificate."""
    listing = subprocess.run(
        ["ip", "-4", "-o", "address"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    found = [address for address in re.findall(r"inet ([0-9.]+)", listing) if not address.startswith("127.")]
    assert found, "the bridge of the Docker daemon has one"
    return str(found[-1])


def self_signed(folder: Path) -> ssl.SSLContext:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=nobody", "-days", "2",
         "-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


def test_the_registry_of_these_tests_speaks_the_protocol(registry: Registry) -> None:
    with httpx2.Client(base_url=f"http://{registry.host}") as client:
        manifest = client.get("/v2/good/manifests/1").raise_for_status().json()
        for part in [manifest["config"], *manifest["layers"]]:
            assert len(client.get(f"/v2/good/blobs/{part['digest']}").raise_for_status().content) == part["size"]
