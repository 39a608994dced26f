"""pytest fixtures for real services, and the layer of each test.

A test names the fixture; the service is installed, started once for the whole run and ended with it. Where a service
cannot run, the test is skipped with the reason, or fails if this run must be complete (`CI` or
`TUNEPLANE_TEST_REQUIRE_SERVICES` is set). See NOTES.md beside this file.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.services import browser, docker, podman, postgres, redis, slurm_start
from tests.services import cluster_network as networks
from tests.services.containers import ContainerImage, Engine, host_python_mounts, import_image
from tests.services.databases import PostgresServer
from tests.services.process import ServiceMissingError
from tests.services.runtime import find_framework_env, find_training_runtime
from tests.services.session import ServiceSession
from tests.services.slurm import VERSIONS, SlurmCluster, SlurmOptions

IMAGE = "localhost/tuneplane-test/python:1"
SESSION = pytest.StashKey[ServiceSession]()
# How the reason of a skip starts that even a complete run accepts.
HARDWARE = "hardware: "
# A fixture name puts a test into its layer, so that none lands in a faster one by a forgotten mark; the first match
# counts, and a mark on the test comes before all. The images need the training runtime's Python, but train nothing.
LAYERS = {
    "catalog": {"framework_env"},
    "services": {
        "redis_url",
        "docker_image",
        "podman_image",
        "container_image",
        "cluster_network",
        "slurm",
        "slurm_2205",
        "slurm_2411",
        "slurm_accounting",
    },
    "training": {"training_runtime"},
    "browser": {"chromium_path"},
}
ENGINES = {"docker_engine", "podman_engine"}


def pytest_configure(config: pytest.Config) -> None:
    _neutral_environment()
    inputs: dict[str, Any] | None = getattr(config, "workerinput", None)
    if inputs is None:
        config.stash[SESSION] = ServiceSession.create()
    else:
        config.stash[SESSION] = ServiceSession(Path(inputs["services_folder"]), inputs["services_controller"])
    # Whoever forgets to choose a home for the client finds an empty one, never the developer's.
    os.environ["TUNEPLANE_HOME"] = str(config.stash[SESSION].folder / "home")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist calls this in the controller for each worker."""
    session = node.config.stash[SESSION]
    node.workerinput["services_folder"] = str(session.folder)
    node.workerinput["services_controller"] = session.controller


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    session = config.stash.get(SESSION, None)
    if session is not None and session.controller == os.getpid():
        session.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(item.get_closest_marker(layer) for layer in LAYERS):
            continue
        names = set(getattr(item, "fixturenames", ()))
        for layer, fixtures in (*LAYERS.items(), ("services", ENGINES)):
            if names & fixtures:
                item.add_marker(layer)
                break


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Playwright's loop counts as the running one for as long as its browser lives; a test without a browser is not inside it."""
    paused = asyncio._get_running_loop()
    if paused is None or "chromium" in getattr(item, "fixturenames", ()):
        return (yield)
    asyncio._set_running_loop(None)
    try:
        return (yield)
    finally:
        asyncio._set_running_loop(None if paused.is_closed() else paused)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A complete run has no skipped test, but for hardware that a machine either has or has not."""
    report = yield
    if report.skipped and _must_be_complete() and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not reason.removeprefix("Skipped: ").startswith(HARDWARE):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} was skipped in a run that must be complete: {reason}"
    return report


def _must_be_complete() -> bool:
    return bool(os.environ.get("CI") or os.environ.get("TUNEPLANE_TEST_REQUIRE_SERVICES"))


def _neutral_environment() -> None:
    """The settings, the credentials and the language of whoever runs the tests are not the tests'."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's job in the background, and all it starts
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in list(os.environ):
        if (
            (
                name.startswith("TUNEPLANE_")
                and not name.startswith(("TUNEPLANE_DEV_", "TUNEPLANE_TEST_", "TUNEPLANE_CHAOS_"))
            )
            or name in ("LANG", "LANGUAGE")
            or name.startswith("LC_")
        ):
            del os.environ[name]
    os.environ["LC_ALL"] = "C.UTF-8"


def unavailable(problem: ServiceMissingError) -> NoReturn:
    """Skip, or fail where a skipped service would hide an untested part."""
    if _must_be_complete():
        pytest.fail(f"a service that this run requires is missing: {problem}", pytrace=False)
    pytest.skip(str(problem))


def _facts(config: pytest.Config, name: str, start: Callable[[Path], Any]) -> dict[str, Any]:
    try:
        return config.stash[SESSION].get(name, start)
    except ServiceMissingError as problem:
        unavailable(problem)


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config) -> PostgresServer:
    """The PostgreSQL server of this run: `create`, `drop` and `url` of databases on it."""
    return PostgresServer(_facts(pytestconfig, "postgres", postgres.start)["port"])


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh, empty PostgreSQL database as a SQLAlchemy URL; dropped afterwards."""
    name = f"test_{uuid.uuid4().hex}"
    postgres_server.create(name)
    yield postgres_server.url(name)
    postgres_server.drop(name)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A fresh, empty SQLite database file in WAL mode as a SQLAlchemy URL."""
    path = tmp_path / "tuneplane.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode=wal")
    return f"sqlite+aiosqlite:///{path}"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Runs the test twice: on a fresh SQLite file and on a fresh PostgreSQL database."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def redis_url(pytestconfig: pytest.Config) -> str:
    """An empty Redis database; each xdist worker has its own on the shared server."""
    port = _facts(pytestconfig, "redis", redis.start)["port"]
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    database = int(worker.removeprefix("gw")) % redis.DATABASES
    redis.send(port, database, "FLUSHDB")
    return f"redis://127.0.0.1:{port}/{database}"


@pytest.fixture(scope="session")
def docker_engine(pytestconfig: pytest.Config) -> Engine:
    """A Docker daemon of our own; `.url` is its DOCKER_HOST. Containers reach this machine over its bridge."""
    return Engine("docker", _facts(pytestconfig, "docker", docker.start)["socket"])


@pytest.fixture(scope="session")
def podman_engine(pytestconfig: pytest.Config) -> Engine:
    """Podman's Docker-compatible service; `.url` is its DOCKER_HOST."""
    return Engine("podman", _facts(pytestconfig, "podman", podman.start)["socket"])


@pytest.fixture(scope="session")
def docker_host(docker_engine: Engine) -> str:
    """DOCKER_HOST of the Docker daemon of this run, `unix://…`."""
    return docker_engine.url


@pytest.fixture(scope="session")
def podman_host(podman_engine: Engine) -> str:
    """DOCKER_HOST of the Podman service of this run, `unix://…`."""
    return podman_engine.url


@pytest.fixture(scope="session")
def docker_image(docker_engine: Engine, training_runtime: Path) -> ContainerImage:
    """The test image in Docker; with its mounts the training runtime's Python runs in it."""
    return _image(docker_engine, training_runtime)


@pytest.fixture(scope="session")
def podman_image(podman_engine: Engine, training_runtime: Path) -> ContainerImage:
    """The test image in Podman; with its mounts the training runtime's Python runs in it."""
    return _image(podman_engine, training_runtime)


@pytest.fixture(params=["docker", "podman"])
def container_image(request: pytest.FixtureRequest) -> ContainerImage:
    """Runs the test twice: with the test image in Docker and in Podman."""
    image: ContainerImage = request.getfixturevalue(f"{request.param}_image")
    return image


def _image(engine: Engine, runtime: Path) -> ContainerImage:
    python = runtime / "bin/python"
    try:
        import_image(engine, IMAGE, {"PATH": f"{runtime}/bin:/usr/bin:/bin"})
    except ServiceMissingError as problem:
        unavailable(problem)
    return ContainerImage(engine, IMAGE, host_python_mounts(python), str(python))


@contextmanager
def network_or_skip(config: pytest.Config) -> Iterator[networks.Network]:
    """An empty network for machines that are network namespaces; everything in it ends with the block."""
    try:
        made = networks.create(config.stash[SESSION])
    except ServiceMissingError as problem:
        unavailable(problem)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def cluster_network(pytestconfig: pytest.Config) -> Iterator[networks.Network]:
    """As `network_or_skip`, for a module."""
    with network_or_skip(pytestconfig) as made:
        yield made


@contextmanager
def slurm_or_skip(config: pytest.Config, version: str, **options: Any) -> Iterator[SlurmCluster]:
    """A cluster of Slurm of the caller's own, to be disturbed; `options` are SlurmOptions'. It ends with the block."""
    try:
        made, end = slurm_start.create(config.stash[SESSION], version, SlurmOptions(**options))
    except ServiceMissingError as problem:
        unavailable(problem)
    try:
        yield made
    finally:
        end()


def _slurm(config: pytest.Config, version: str, options: SlurmOptions) -> SlurmCluster:
    name = f"slurm-{version}{'-accounting' if options.accounting else ''}"
    return SlurmCluster.of(_facts(config, name, slurm_start.starter(version, options)))


@pytest.fixture(scope="session")
def slurm_clusters(pytestconfig: pytest.Config) -> Callable[[str], SlurmCluster]:
    """Called with 22.05 or 24.11: that Slurm, shared by all tests of the run. Leave its daemons and nodes alone, and end your jobs."""
    return lambda version: _slurm(pytestconfig, version, SlurmOptions())


@pytest.fixture(scope="session", params=sorted(VERSIONS))
def slurm(request: pytest.FixtureRequest, slurm_clusters: Callable[[str], SlurmCluster]) -> SlurmCluster:
    """Runs the test twice: with the Slurm 22.05 and with the 24.11 of `slurm_clusters`."""
    return slurm_clusters(request.param)


@pytest.fixture(scope="session", params=sorted(VERSIONS))
def slurm_accounting(request: pytest.FixtureRequest) -> SlurmCluster:
    """Runs the test twice, each with slurmdbd, accounts and limits; slurmctld forgets a job two seconds after its end."""
    return _slurm(request.config, request.param, SlurmOptions(accounting=True, forget_seconds=2))


@pytest.fixture(scope="session")
def training_runtime() -> Path:
    """The Python environment that plays the training image: torch (CPU where the machine has that build) and TRL."""
    try:
        return find_training_runtime()
    except ServiceMissingError as problem:
        unavailable(problem)


@pytest.fixture(scope="session")
def framework_env() -> Callable[[str], Path]:
    """Called with a framework's name: the Python environment in which that framework's own parser runs."""

    def find(name: str) -> Path:
        try:
            return find_framework_env(name)
        except ServiceMissingError as problem:
            unavailable(problem)

    return find


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Debian's Chromium, for playwright's `executable_path`."""
    try:
        return browser.find_chromium()
    except ServiceMissingError as problem:
        unavailable(problem)


@pytest.fixture(scope="session")
def chromium(chromium_path: str) -> Iterator[Any]:
    """A running Chromium as playwright's `Browser`; one a session, since playwright's loop may be started only once."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=["--no-sandbox"])
        loop = asyncio.get_running_loop()
        yield browser
        asyncio._set_running_loop(loop)  # the last test may have been one without a browser
        browser.close()
