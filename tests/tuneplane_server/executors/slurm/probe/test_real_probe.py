"""The check and the probe on real Slurm, 22.05 and 24.11: what is right is told, and each thing that is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.services.plugin import slurm_or_skip
from tests.services.ports import free_port
from tests.services.slurm import VERSIONS, SlurmCluster
from tuneplane_server.domain.slurm_choices import Partitions, QosLevels, parse_partitions
from tuneplane_server.executors.port import Finding
from tuneplane_server.executors.slurm.checking import findings
from tuneplane_server.executors.slurm.probe import ProbeRequest, probe
from tuneplane_server.executors.slurm.rest.client import SlurmClient
from tuneplane_server.slurm_settings import SlurmSettings

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=sorted(VERSIONS))
def slurm(request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    """One of our own: on the shared one other tests may hold every card."""
    with slurm_or_skip(request.config, request.param) as cluster:
        yield cluster


def settings(cluster: SlurmCluster, **changes: object) -> SlurmSettings:
    whole = SlurmSettings(
        url=cluster.url, user=cluster.user, token=None, token_file=cluster.token_file, ca_file=None, container="apptainer",
        partitions=parse_partitions("main,h200=main"), account=None, qos=QosLevels(), reservation=None,
        time_limit_minutes=30, lost_after=timedelta(seconds=120),
    )  # fmt: skip
    return replace(whole, **changes)


@pytest.fixture
async def client(slurm: SlurmCluster) -> AsyncIterator[SlurmClient]:
    opened = SlurmClient(slurm.url, slurm.user, slurm.token_file)
    yield opened
    await opened.close()


@pytest.fixture
def root(slurm: SlurmCluster) -> Path:
    """A storage root of its own that the compute nodes see too."""
    path = slurm.folder / f"root-{secrets.token_hex(4)}"
    path.mkdir()
    return path


@pytest.fixture
def down(slurm: SlurmCluster) -> Iterator[str]:
    """A partition that starts nothing."""
    name = f"down{secrets.token_hex(3)}"
    slurm.run("scontrol", "create", f"partition={name}", "nodes=n1", "state=down")
    yield name
    slurm.run("scancel", f"--partition={name}")
    slurm.wait("its jobs are gone", lambda: not slurm.run("squeue", "-h", "-p", name, "-o", "%A").split())
    slurm.run("scontrol", "delete", f"partition={name}")


def only(found: Sequence[Finding], code: str) -> Finding:
    (one,) = [finding for finding in found if finding.code == code]
    return one


async def test_a_good_cluster(slurm: SlurmCluster, client: SlurmClient, console: str, root: Path) -> None:
    checked = await findings(client, settings(slurm), root)
    assert [item for item in checked if item.level != "info"] == []
    assert slurm.version in only(checked, "slurm").text
    found = await probe(client, ProbeRequest(settings(slurm), root, console))
    assert [item for item in found if item.level == "error"] == []
    assert {item.code for item in found} >= {"probe-storage", "probe-ingest", "probe-container", "probe-cards"}
    assert f"jobs run as {slurm.user}" in only(found, "probe-storage").text
    assert "apptainer version" in only(found, "probe-container").text
    assert "1 card" in only(found, "probe-cards").text
    assert list((root / "projects").iterdir()) == []


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A directory that only this machine has: /tmp is the compute nodes' too."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "root"


async def test_a_storage_root_that_compute_nodes_do_not_have(
    slurm: SlurmCluster, client: SlurmClient, console: str, elsewhere: Path
) -> None:
    found = await probe(client, ProbeRequest(settings(slurm), elsewhere, console))
    assert "is not there" in only(found, "probe-storage").text
    assert [item.code for item in found] == ["probe-storage"]
    slurm.run("sh", "-c", f"umask 022; mkdir -p {elsewhere}/projects")  # on their own disk
    found = await probe(client, ProbeRequest(settings(slurm), elsewhere, console))
    assert "another directory" in only(found, "probe-storage").text


@pytest.fixture
def closed(root: Path) -> Path:
    root.chmod(0o700)
    return root


async def test_a_storage_root_that_is_closed_to_the_jobs_user(
    slurm: SlurmCluster, client: SlurmClient, console: str, closed: Path
) -> None:
    found = await probe(client, ProbeRequest(settings(slurm), closed, console))
    assert "may not enter" in only(found, "probe-storage").text


async def test_a_console_that_compute_nodes_do_not_reach(slurm: SlurmCluster, client: SlurmClient, root: Path) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    found = await probe(client, ProbeRequest(settings(slurm), root, address))
    finding = only(found, "probe-ingest")
    assert finding.level == "error"
    assert address in finding.text
    assert finding.detail != ""


async def test_a_container_runtime_that_is_not_there(
    slurm: SlurmCluster, client: SlurmClient, console: str, root: Path
) -> None:
    found = await probe(client, ProbeRequest(settings(slurm, container="enroot-pyxis"), root, console))
    finding = only(found, "probe-container")
    assert finding.level == "error"
    assert "TUNEPLANE_SLURM_CONTAINER" in finding.hint


async def test_slurms_own_containers_need_their_file(
    slurm: SlurmCluster, client: SlurmClient, console: str, root: Path
) -> None:
    """Of the tests' clusters only the one of 24.11 has an oci.conf."""
    has_file = slurm.run("sh", "-c", "test -e /etc/slurm/oci.conf && echo yes", check=False).strip() == "yes"
    found = await probe(client, ProbeRequest(settings(slurm, container="oci"), root, console))
    assert only(found, "probe-container").level == ("info" if has_file else "error")


async def test_a_bundle_that_slurm_does_not_run_in(
    slurm: SlurmCluster, client: SlurmClient, console: str, root: Path
) -> None:
    """Without an oci.conf a container is accepted and ignored, or the step does not start: either is told."""
    bundle = root / "bundle"
    bundle.mkdir()
    (bundle / "config.json").write_text("{}")
    found = await probe(client, ProbeRequest(settings(slurm, container="oci"), root, console, bundle=bundle))
    assert only(found, "probe-container").level == "error"


@pytest.fixture
def bundle(slurm: SlurmCluster, root: Path) -> Path:
    """As an administrator makes one; its root file system has the cluster's own programs."""
    place = root / "bundle"
    root.chmod(0o777)
    slurm.run("sh", "-c", f"mkdir -p {place}/rootfs && cd {place} && runc spec --rootless", user=slurm.user)
    config = json.loads((place / "config.json").read_text())
    config["mounts"] += [
        {"destination": path, "type": "none", "source": path, "options": ["rbind", "ro"]}
        for path in ("/usr", "/bin", "/lib", "/lib64")
    ]
    config["root"]["readonly"] = False
    (place / "config.json").unlink()
    (place / "config.json").write_text(json.dumps(config))
    return place


@pytest.mark.parametrize("slurm", ["24.11"], indirect=True)  # the one with an OCI runtime
async def test_a_bundle_is_seen_to_run(
    slurm: SlurmCluster, client: SlurmClient, console: str, root: Path, bundle: Path
) -> None:
    found = await probe(client, ProbeRequest(settings(slurm, container="oci"), root, console, bundle=bundle))
    finding = only(found, "probe-container")
    assert finding.level == "info", finding


async def test_a_partition_that_is_down(
    slurm: SlurmCluster, client: SlurmClient, console: str, root: Path, down: str
) -> None:
    chosen = settings(slurm, partitions=parse_partitions(down))
    finding = only(await findings(client, chosen, root), "slurm-partition-down")
    assert finding.level == "error"
    assert "TUNEPLANE_SLURM_PARTITION" in finding.hint
    found = await probe(client, ProbeRequest(chosen, root, console, wait=0.0))
    assert found[0].code in ("probe-waiting", "probe-refused")
    slurm.wait("the probe is taken back", lambda: not slurm.run("squeue", "-h", "-p", down, "-o", "%A").split())
    assert list((root / "projects").iterdir()) == []


async def test_a_cancelled_probe_leaves_no_job(
    slurm: SlurmCluster, client: SlurmClient, console: str, root: Path, down: str
) -> None:
    submitted = asyncio.Event()
    request = ProbeRequest(
        settings(slurm, partitions=parse_partitions(down)), root, console, tell=lambda _line: submitted.set()
    )
    looking = asyncio.create_task(probe(client, request))
    waiting = asyncio.create_task(submitted.wait())
    await asyncio.wait({looking, waiting}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    looking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await looking
    waiting.cancel()
    slurm.wait("the probe is taken back", lambda: not slurm.run("squeue", "-h", "-p", down, "-o", "%A").split())
    assert list((root / "projects").iterdir()) == []


async def test_a_token_that_expires(slurm: SlurmCluster, root: Path, tmp_path: Path) -> None:
    token = slurm.write_token(tmp_path / "token", lifespan=2)
    chosen = settings(slurm, token_file=token)
    opened = SlurmClient(slurm.url, slurm.user, token)
    try:
        async with asyncio.timeout(60):
            while not [item for item in await findings(opened, chosen, root) if item.code == "slurm-token-expired"]:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.2)
        finding = only(await findings(opened, chosen, root), "slurm-token-expired")
        assert finding.level == "error"
        assert str(token) in finding.hint
        slurm.write_token(token)
        assert "slurm-token-expired" not in {item.code for item in await findings(opened, chosen, root)}
    finally:
        await opened.close()


async def test_a_user_that_the_token_is_not_of(slurm: SlurmCluster, root: Path) -> None:
    opened = SlurmClient(slurm.url, "nobody", slurm.token_file)
    try:
        found = await findings(opened, settings(slurm, user="nobody"), root)
    finally:
        await opened.close()
    assert [item.level for item in found if item.level != "info"] != []


async def test_refused_as_the_settings_ask(slurm: SlurmCluster, client: SlurmClient, console: str, root: Path) -> None:
    (finding,) = await probe(client, ProbeRequest(settings(slurm, reservation="nosuch"), root, console))
    assert finding.code == "probe-refused"
    assert "TUNEPLANE_SLURM_RESERVATION" in finding.hint


async def test_slurms_own_default_partition(slurm: SlurmCluster, client: SlurmClient, console: str, root: Path) -> None:
    """24.11 does not say which it is."""
    chosen = settings(slurm, partitions=Partitions())
    assert [item for item in await findings(client, chosen, root) if item.level != "info"] == []
    found = await probe(client, ProbeRequest(chosen, root, console))
    assert only(found, "probe-storage").level == "info"


async def test_accounts_and_qos_that_the_accounting_knows(slurm_accounting: SlurmCluster, tmp_path: Path) -> None:
    opened = SlurmClient(slurm_accounting.url, slurm_accounting.user, slurm_accounting.token_file)
    good = settings(slurm_accounting, account="small", qos=QosLevels(((0, "normal"), (50, "high"))))
    bad = settings(slurm_accounting, account="nosuch", reservation="nosuch")
    wrong_qos = settings(slurm_accounting, account="research", qos=QosLevels(((0, "nosuch"),)))
    try:
        assert [item for item in await findings(opened, good, tmp_path) if item.level != "info"] == []
        assert "research, small" in only(await findings(opened, bad, tmp_path), "slurm-account").hint
        assert only(await findings(opened, bad, tmp_path), "slurm-reservation").level == "error"
        assert "high, normal" in only(await findings(opened, wrong_qos, tmp_path), "slurm-qos").hint
    finally:
        await opened.close()
