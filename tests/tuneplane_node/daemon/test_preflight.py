"""What stands in the way of a job on a machine, all of it at once: real names, sockets, files and mounts."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.services.ports import free_port
from tests.tuneplane_node.daemon.served import ServedNode
from tuneplane_node.daemon.addresses import interface_of, local_addresses, route_towards
from tuneplane_node.daemon.capsule_files import check_capsule
from tuneplane_node.daemon.file_lane import FileLane
from tuneplane_node.daemon.ports import Ports
from tuneplane_node.daemon.preflight import Here, check_space, preflight
from tuneplane_node.engine import RuntimeHandle, Stranger
from tuneplane_node.wire import MainPlace, PreflightReport, PreflightRequest

JOB = "0123456789abcdef"
NOW = 1_800_000_000.0
GIB = 1024**3


@pytest.fixture
def here(tmp_path: Path) -> Here:
    root = tmp_path / "shared"
    (root / "jobs/x/capsule").mkdir(parents=True)
    return Here(root, tmp_path / "state", frozenset({0, 1}), process=True, clock=lambda: NOW, pause=0.0)


@pytest.fixture
def capsule(here: Here) -> dict[str, str]:
    """Files as a console wrote them, and their digests."""
    folder = here.storage_root / "jobs/x/capsule"
    digests = {}
    for name, content in {
        "capsule.json": b"{}",
        "bootstrap.sh": b"exit 0\n",
        "runner.pex": os.urandom(300_000),
    }.items():
        (folder / name).write_bytes(content)
        digests[name] = hashlib.sha256(content).hexdigest()
    return digests


@pytest.fixture
async def console() -> AsyncIterator[str]:
    """Something that accepts connections where jobs send their logs to."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


def asked(here: Here, **fields: Any) -> PreflightRequest:
    fields.setdefault("capsule_dir", str(here.storage_root / "jobs/x/capsule"))
    return PreflightRequest(job=JOB, attempt=1, **fields)


def codes(report: PreflightReport) -> list[str]:
    return sorted(problem.code for problem in report.problems)


async def test_a_machine_on_which_all_is_well(here: Here, capsule: dict[str, str], console: str) -> None:
    digest = capsule.pop("capsule.json")
    request = asked(
        here,
        capsule_sha256=digest,
        files=capsule,
        ingest_url=console,
        gpus=(0, 1),
        console_time=NOW - 2.0,
        min_free_bytes=1,
    )
    report = await preflight(request, here)
    assert codes(report) == []
    assert report.clock_offset == 2.0
    assert (report.reached, report.interface) == (None, "lo")
    assert [each.address for each in report.ips] == [each.address for each in local_addresses()]


async def test_a_card_that_a_lost_job_holds_is_refused(here: Here) -> None:
    handle = RuntimeHandle("docker", "tp-left-1-0")
    left = Stranger(handle, "left", "1", "old-id", running=True, gpus=(1,))
    report = await preflight(asked(here, gpus=(0, 1)), replace(here, strangers=(left,)))
    (problem,) = report.problems
    assert (problem.code, problem.retry, problem.values["index"]) == ("card-held-by-stranger", True, 1)
    assert "docker/tp-left-1-0" in problem.text
    unknown = replace(left, gpus=None)
    assert len((await preflight(asked(here, gpus=(0, 1)), replace(here, strangers=(unknown,)))).problems) == 2
    over = replace(unknown, running=False)
    assert (await preflight(asked(here, gpus=(0, 1)), replace(here, strangers=(over,)))).problems == ()


async def test_a_driver_that_does_not_answer_is_waited_for_and_no_card_is_called_missing(
    served: ServedNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch that is refused for a card that is not there fails the run."""
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'NVML: Driver/library version mismatch'; exit 18\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    report = await served.client().preflight(PreflightRequest(JOB, 1, str(served.storage_root), gpus=(0,)))
    (problem,) = [each for each in report.problems if each.level == "error"]
    assert (problem.code, problem.retry) == ("gpu-query-failed", True)
    assert "version mismatch" in problem.detail


async def test_everything_that_is_wrong_is_told_at_once_with_what_to_do(here: Here, capsule: dict[str, str]) -> None:
    (here.storage_root / "jobs/x/capsule/runner.pex").write_bytes(b"another one")
    (here.storage_root / "jobs/x/capsule/bootstrap.sh").unlink()
    port = free_port()
    broken = replace(here, shm=here.storage_root / "no-shm")
    report = await preflight(
        asked(
            here, files=capsule, ingest_url=f"http://127.0.0.1:{port}", gpus=(1, 7, 9), console_time=NOW + 3600.0,
            min_free_bytes=1 << 60, main=MainPlace(("127.0.0.1",), port),
        ),
        broken,
    )  # fmt: skip
    assert codes(report) == [
        "capsule-altered", "capsule-unreadable", "clock-offset", "disk-low", "gpu-unknown", "gpu-unknown",
        "ingest-unreachable", "main-unreachable", "shm-missing",
    ]  # fmt: skip
    assert report.clock_offset == -3600.0
    assert all(problem.text and problem.hint for problem in report.problems)
    clock = next(problem for problem in report.problems if problem.code == "clock-offset")
    assert "3600 s" in clock.text
    assert clock.detail.startswith("behind")
    main = next(problem for problem in report.problems if problem.code == "main-unreachable")
    assert f"127.0.0.1 port {port}" in main.text
    assert main.detail == "127.0.0.1: Connection refused"


async def test_a_name_that_cannot_be_found_is_another_thing_than_an_address_that_does_not_answer(here: Here) -> None:
    report = await preflight(asked(here, ingest_url="https://console.invalid/"), here)
    assert codes(report) == ["ingest-dns"]
    assert "console.invalid" in report.problems[0].text
    report = await preflight(asked(here, ingest_url="not a url"), here)
    assert codes(report) == ["request-invalid"]


async def test_the_first_machine_is_reached_at_the_first_address_that_is_its_own(here: Here, tmp_path: Path) -> None:
    async def holds(_job: str, _attempt: int) -> bool:
        return False

    ports = Ports(tmp_path / "ports.json", holds)
    port = await ports.reserve(JOB, 1)
    await ports.open(JOB, 1)
    report = await preflight(asked(here, main=MainPlace(("no.such.host.invalid", "127.0.0.1", "::1"), port)), here)
    await ports.aclose()
    assert (codes(report), report.reached, report.interface) == ([], "127.0.0.1", "lo")


async def test_a_container_has_shared_memory_of_its_own(here: Here) -> None:
    isolated = replace(here, process=False, shm=here.storage_root / "no-shm")
    assert codes(await preflight(asked(here), isolated)) == []


async def test_a_storage_root_that_hangs_is_told(here: Here) -> None:
    go = threading.Event()
    lane = FileLane(seconds=0.05, most=1)
    hanging = asyncio.ensure_future(lane.run(go.wait, 60))
    stuck = replace(here, files=lane)
    await asyncio.sleep(0)
    assert codes(await preflight(asked(here), stuck)) == ["storage-unusable"]
    go.set()
    await asyncio.gather(hanging, return_exceptions=True)


@pytest.fixture
def small_shm(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "shm"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)], check=True, timeout=60)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True, timeout=60)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
async def test_a_small_shared_memory_is_said_and_no_refusal(here: Here, small_shm: Path) -> None:
    cramped = replace(here, shm=small_shm)
    (problem,) = (await preflight(asked(here), cramped)).problems
    assert (problem.code, problem.level) == ("shm-small", "warning")
    assert "0.1 GiB" in problem.text


def test_free_space_is_that_of_where_the_path_will_be(tmp_path: Path) -> None:
    assert check_space(tmp_path / "not" / "yet", 1) == []
    (problem,) = check_space(tmp_path / "not" / "yet", 1 << 60)
    assert "GiB are needed" in problem.text()


# --- the capsule ------------------------------------------------------------------------------------------------------


def capsule_codes(here: Here, files: dict[str, str], directory: str = "") -> list[str]:
    folder = directory or str(here.storage_root / "jobs/x/capsule")
    return [problem.code for problem in check_capsule(here.storage_root, folder, files, looks=1)]


def test_a_capsule_altered_on_its_way_is_refused(here: Here, capsule: dict[str, str]) -> None:
    assert capsule_codes(here, capsule) == []
    pex = here.storage_root / "jobs/x/capsule/runner.pex"
    pex.write_bytes(pex.read_bytes()[:-1] + b"\0")
    problems = check_capsule(here.storage_root, str(pex.parent), capsule, looks=1)
    assert [(problem.code, problem.values["path"]) for problem in problems] == [("capsule-altered", pex)]
    assert capsule["runner.pex"] in problems[0].detail


def test_a_file_that_shows_late_is_waited_for(
    here: Here, capsule: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    late = here.storage_root / "jobs/x/capsule/bootstrap.sh"
    content = late.read_bytes()
    late.write_bytes(b"of the attempt before")
    monkeypatch.setattr(time, "sleep", lambda _seconds: late.write_bytes(content))
    assert check_capsule(here.storage_root, str(late.parent), capsule) == []


@pytest.mark.parametrize("directory", ["/etc", "relative", "{root}/../etc", "{root}x/capsule", "{root}/a/../../etc"])
def test_nothing_outside_of_the_storage_root_is_read(directory: str, here: Here) -> None:
    assert capsule_codes(here, {"passwd": "0" * 64}, directory.format(root=here.storage_root)) == [
        "path-outside-storage"
    ]


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "", "x\0", "x" * 200])
def test_only_plain_names_are_looked_at(name: str, here: Here) -> None:
    assert capsule_codes(here, {name: "0" * 64}) == ["request-invalid"]


def test_a_link_is_no_file_of_a_capsule(here: Here, capsule: dict[str, str]) -> None:
    pex = here.storage_root / "jobs/x/capsule/runner.pex"
    pex.rename(pex.with_name("real"))
    pex.symlink_to("real")
    assert capsule_codes(here, {"runner.pex": capsule["runner.pex"]}) == ["capsule-unreadable"]


# --- addresses --------------------------------------------------------------------------------------------------------


def test_addresses_are_those_that_the_system_s_tool_lists() -> None:
    shown = subprocess.run(
        ["ip", "-o", "addr", "show", "scope", "global"], capture_output=True, text=True, check=True, timeout=60
    )
    listed = {
        (line.split()[3].split("/")[0], line.split()[1])
        for line in shown.stdout.splitlines()
        if "tentative" not in line
    }
    assert {(each.address, each.interface) for each in local_addresses()} == listed


def test_the_interface_towards_an_address_comes_from_the_route() -> None:
    towards = route_towards("127.0.0.1")
    assert towards is not None
    assert (towards.address, towards.interface) == ("127.0.0.1", "lo")
    for each in local_addresses():
        assert interface_of(each.address) == each.interface
    assert interface_of("203.0.113.9") == ""
    assert route_towards("300.1.1.1") is None
