"""Pulls from the distribution project's own registry server (Debian's docker-registry): found, missing, locked."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from tests.services.containers import Engine as ContainerEngine
from tests.services.containers import import_image
from tests.services.packages import require_packages
from tests.services.plugin import unavailable
from tests.services.ports import free_port
from tests.services.process import ServiceMissingError, spawn, stop, wait_ready
from tests.tuneplane_node.bench import IMAGE, Bench
from tuneplane_node.engine import NodeError

pytestmark = pytest.mark.services
LOGIN = {"username": "me", "password": "secret"}
# `htpasswd -nbB me secret`: the server takes bcrypt only.
HTPASSWD = "me:$2b$05$L0eqmJTxXqJcQ71aRljs/uJG6/OKtHZ9LWtmBwNO9sl5zfiHJ8F16\n"

StartRegistry = Callable[..., str]


@pytest.fixture
def start_registry(tmp_path: Path) -> Iterator[StartRegistry]:
    """Start a registry server; returns its host and port."""
    try:
        require_packages("registry")
    except ServiceMissingError as problem:
        unavailable(problem)
    running = []

    def start(*, locked: bool) -> str:
        home = tmp_path / f"registry-{len(running)}"
        home.mkdir()
        port = free_port()
        (home / "htpasswd").write_text(HTPASSWD)
        auth = f"auth: {{htpasswd: {{realm: test, path: {home}/htpasswd}}}}\n" if locked else ""
        (home / "config.yml").write_text(
            f"version: 0.1\nlog: {{accesslog: {{disabled: true}}}}\nstorage: {{filesystem: {{rootdirectory: {home}/data}}}}\n"
            f"http: {{addr: 127.0.0.1:{port}}}\n{auth}"
        )
        process = spawn(["docker-registry", "serve", str(home / "config.yml")], home / "log")
        running.append(process)
        wait_ready(lambda: listens(port), process, home / "log", seconds=60)
        return f"127.0.0.1:{port}"

    yield start
    for process in running:
        stop(process)


def listens(port: int) -> bool:
    try:
        with closing(socket.create_connection(("127.0.0.1", port), timeout=1)):
            return True
    except OSError:
        return False


def push(engine: ContainerEngine, host: str) -> str:
    """Put the test image into the registry under another name, and forget it here."""
    import_image(engine, IMAGE, {"PATH": "/usr/bin:/bin"})
    repository = f"{host}/lab/trainer"
    login = base64.urlsafe_b64encode(json.dumps({**LOGIN, "serveraddress": host}).encode()).decode()
    with engine.client() as client:
        client.post(f"/images/{IMAGE}/tag", params={"repo": repository, "tag": "7"}).raise_for_status()
        pushed = client.post(f"/images/{repository}/push", params={"tag": "7"}, headers={"X-Registry-Auth": login})
        assert "errorDetail" not in pushed.raise_for_status().text
        client.delete(f"/images/{repository}:7").raise_for_status()
    return f"{repository}:7"


async def test_an_image_of_a_registry_runs(
    docker_engine: ContainerEngine, start_registry: StartRegistry, tmp_path: Path
) -> None:
    host = start_registry(locked=False)
    image = push(docker_engine, host)
    bench = Bench("docker", docker_engine.url, image, tmp_path)
    handle = await bench.launch("exit 5")
    assert (await bench.ended(handle)).exit_code == 5
    with httpx2.Client(base_url=f"http://{host}") as client:
        digest = client.head(
            "/v2/lab/trainer/manifests/7", headers={"Accept": "application/vnd.docker.distribution.manifest.v2+json"}
        ).headers["Docker-Content-Digest"]
    by_digest = await bench.launch("exit 6", "digest", image=f"{host}/lab/trainer@{digest}")
    assert (await bench.ended(by_digest)).exit_code == 6
    await bench.clean()


async def test_what_a_registry_has_not_is_told(
    docker_engine: ContainerEngine, start_registry: StartRegistry, tmp_path: Path
) -> None:
    host = start_registry(locked=False)
    push(docker_engine, host)
    bench = Bench("docker", docker_engine.url, None, tmp_path)
    for image in (f"{host}/lab/trainer:8", f"{host}/lab/nobody:1"):
        with pytest.raises(NodeError) as problem:
            await bench.launch("exit 0", image=image)
        assert problem.value.code == "image-not-found", problem.value.detail
        assert problem.value.blame == "user"


async def test_a_locked_registry_opens_with_the_machine_s_login_only(
    docker_engine: ContainerEngine, start_registry: StartRegistry, tmp_path: Path
) -> None:
    host = start_registry(locked=True)
    image = push(docker_engine, host)
    bench = Bench("docker", docker_engine.url, image, tmp_path)
    config = tmp_path / "config.json"
    for password in ("wrong", None):
        auths = {} if password is None else {host: {"auth": base64.b64encode(f"me:{password}".encode()).decode()}}
        config.write_text(json.dumps({"auths": auths}))
        with pytest.raises(NodeError) as problem:
            await bench.new_engine(docker_config=config).launch(bench.request("exit 0"))
        assert problem.value.code == "image-unauthorized", problem.value.detail
        assert "wrong" not in str(problem.value)
    config.write_text(json.dumps({"auths": {host: {"auth": base64.b64encode(b"me:secret").decode()}}}))
    handle = await bench.new_engine(docker_config=config).launch(bench.request("exit 4"))
    assert (await bench.ended(handle)).exit_code == 4
    await bench.clean()
