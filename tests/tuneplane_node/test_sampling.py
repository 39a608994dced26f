"""What is measured: real files of this machine, files as other kernels write them, NVIDIA's tool played by a script."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tuneplane_node.test_inventory import install_nvidia_smi
from tuneplane_node.engine import Engine
from tuneplane_node.engine.inventory import parse_simulated
from tuneplane_node.engine.sampling.cards import (
    CardFigures,
    CardReader,
    CardsUnreadableError,
    NvidiaSmi,
    parse_figures,
)
from tuneplane_node.engine.sampling.counters import Rates
from tuneplane_node.engine.sampling.jobs import JobPlace, JobReader
from tuneplane_node.engine.sampling.machine import MachineReader
from tuneplane_node.engine.sampling.sampler import Sampler

MIB = 1024 * 1024
# Two cards as the tool prints them: an H200, and one that shares its memory and has no error correction.
PRINTED = "1, 0, [N/A], 31, [Not Supported], [N/A], [N/A], [N/A]\n0, 97, 70123, 64, 512.34, 0, 12, 0x0000000000000004\n"


class Cards:
    """A reader in memory; it passes the same contract as the real one."""

    def __init__(self, cards: list[CardFigures] | str) -> None:
        self._cards = cards

    async def read(self) -> list[CardFigures]:
        if isinstance(self._cards, str):
            raise CardsUnreadableError(self._cards)
        return self._cards


def _smi(folder: Path, script: str) -> NvidiaSmi:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return NvidiaSmi(str(program), seconds=30.0)


READERS: dict[str, Callable[[Path, str], CardReader]] = {
    "memory": lambda _folder, printed: Cards(parse_figures(printed)),
    "nvidia-smi": lambda folder, printed: _smi(folder, f"printf '%s' '{printed}'"),
}
BROKEN: dict[str, Callable[[Path, str], CardReader]] = {
    "memory": lambda _folder, said: Cards(said),
    "nvidia-smi": lambda folder, said: _smi(folder, f"echo '{said}'; exit 9"),
}


# --- cards: one contract for every reader -----------------------------------------------------------------------------


@pytest.mark.parametrize("make", READERS.values(), ids=READERS)
async def test_a_reader_gives_the_cards_by_index_in_our_units(
    make: Callable[[Path, str], CardReader], tmp_path: Path
) -> None:
    first, second = await make(tmp_path, PRINTED).read()
    measured = {"use": 97.0, "memory_used": 70123.0 * MIB, "temperature": 64.0, "power": 512.34}
    health = {"ecc_errors": 0.0, "ecc_corrected": 12.0, "slowed": 0.0}
    assert first == CardFigures(0, measured | health), "its own power limit does not count as being slowed down"
    assert second == CardFigures(1, {"use": 0.0, "temperature": 31.0}), "what a card does not tell is left out"


@pytest.mark.parametrize("make", READERS.values(), ids=READERS)
async def test_no_card_is_no_card(make: Callable[[Path, str], CardReader], tmp_path: Path) -> None:
    assert await make(tmp_path, "").read() == []


@pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN)
async def test_a_driver_that_fails_is_said_in_its_own_words(
    make: Callable[[Path, str], CardReader], tmp_path: Path
) -> None:
    with pytest.raises(CardsUnreadableError, match="Driver/library version mismatch"):
        await make(tmp_path, "Failed to initialize NVML: Driver/library version mismatch").read()


async def test_the_tool_is_asked_for_what_is_read_of_it(tmp_path: Path) -> None:
    reader = _smi(tmp_path, f'echo "$@" >{tmp_path}/asked; printf "%s" "{PRINTED}"')
    await reader.read()
    assert (tmp_path / "asked").read_text().strip() == (
        "--query-gpu=index,utilization.gpu,memory.used,temperature.gpu,power.draw,ecc.errors.uncorrected.volatile.total,"
        "ecc.errors.corrected.volatile.total,clocks_event_reasons.active --format=csv,noheader,nounits"
    )


@pytest.mark.parametrize(("reasons", "slowed"), [
    ("0x0000000000000000", 0.0), ("0x0000000000000001", 0.0), ("0x0000000000000004", 0.0), ("0x0000000000000100", 0.0),
    ("0x0000000000000008", 1.0), ("0x0000000000000020", 1.0), ("0x0000000000000044", 1.0), ("0x0000000000000080", 1.0),
])  # fmt: skip
def test_a_card_that_heat_or_lack_of_power_slows_down_says_so(reasons: str, slowed: float) -> None:
    (card,) = parse_figures(f"0, 97, 70123, 64, 512.34, 0, 0, {reasons}")
    assert card.figures["slowed"] == slowed


@pytest.mark.parametrize("unknown", ["clocks_event_reasons", "clocks_.*_reasons"])
async def test_a_driver_that_does_not_know_a_figure_tells_the_others(unknown: str, tmp_path: Path) -> None:
    """Older drivers know the reasons for slow clocks by another name, or not at all; one unknown name fails the whole call."""
    reader = _smi(
        tmp_path,
        f"echo x >>{tmp_path}/calls\n"
        f"case $1 in *{unknown.replace('.*', '*')}*)\n"
        "  echo 'Field \"it\" is not a valid field to query.'; exit 2;;\n"
        "*_reasons*) echo '0, 97, 70123, 64, 512.34, 1, 0, 0x0000000000000040';;\n"
        "*) echo '0, 97, 70123, 64, 512.34, 1, 0';; esac",
    )
    for _look in range(2):
        (card,) = await reader.read()
        assert (card.figures["ecc_errors"], card.figures.get("slowed")) == (1.0, None if "*" in unknown else 1.0)
    calls = len((tmp_path / "calls").read_text().splitlines())
    assert calls == (4 if "*" in unknown else 3), "what it does not know is not asked for again"


async def test_a_machine_without_the_tool_has_no_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await NvidiaSmi().read() == []


async def test_a_driver_that_hangs_is_given_up_and_is_not_asked_by_more_and_more_processes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never")
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho x >>{tmp_path}/calls\nexec cat {tmp_path}/never\n")
    program.chmod(0o755)
    reader = NvidiaSmi(str(program), seconds=0.3)
    with pytest.raises(CardsUnreadableError, match="no answer"):
        await reader.read()
    assert reader._stuck is not None
    await reader._stuck.wait()  # it was killed; one that the kernel cannot kill has no return code
    reader._stuck = type("Process", (), {"returncode": None})()  # ty: ignore[invalid-assignment]
    with pytest.raises(CardsUnreadableError, match="still hangs"):
        await reader.read()


@pytest.mark.parametrize("text", ["No devices were found", "x, 1, 2, 3, 4, 5, 6, 7", "0, 1, 2"])
def test_what_is_no_line_of_a_card_is_refused(text: str) -> None:
    with pytest.raises(CardsUnreadableError):
        parse_figures(text)


# --- the machine ------------------------------------------------------------------------------------------------------


def test_this_machine_tells_its_figures(tmp_path: Path) -> None:
    reader = MachineReader(tmp_path / "not" / "yet")
    levels, counts = reader.levels(), reader.counts()
    assert 0 < levels["memory_used"] < 2**50
    assert levels["disk_used"] > 0
    assert 0 < counts["cpu_busy"] <= counts["cpu_all"]
    assert {"net_in", "net_out"} <= counts.keys()


def _kernel(root: Path) -> MachineReader:
    """A machine whose files are these."""
    files = {
        "proc/stat": "cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 1 2 3\n",
        "proc/meminfo": "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n",
        "proc/diskstats": "8 0 sda 1 0 10 0 1 0 20 0 0 0 0\n8 1 sda1 1 0 10 0 1 0 20 0 0 0 0\n7 0 loop0 9 0 9 9 9 9 9 0 0 0 0\n",
        "proc/net/dev": "Inter-|\n face |\n    lo: 9 0 0 0 0 0 0 0 9 0\n  eth0: 100 0 0 0 0 0 0 0 200 0\n veth1: 5 0 0 0 0 0 0 0 5 0\n",
        "sys/block/sda/device/model": "x",
        "sys/class/net/eth0/device/vendor": "x",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return MachineReader(root, root / "proc", root / "sys")


def test_only_whole_disks_and_real_interfaces_count(tmp_path: Path) -> None:
    reader = _kernel(tmp_path)
    tick = os.sysconf("SC_CLK_TCK")
    assert reader.counts() == {
        "cpu_busy": 150 / tick,
        "cpu_all": 1000 / tick,
        "disk_read": 10 * 512.0,
        "disk_write": 20 * 512.0,
        "net_in": 100.0,
        "net_out": 200.0,
    }
    assert reader.levels()["memory_used"] == 600 * 1024


def test_inside_a_container_every_interface_but_the_loopback_counts(tmp_path: Path) -> None:
    reader = _kernel(tmp_path)
    (tmp_path / "sys/class/net/eth0/device/vendor").unlink()
    (tmp_path / "sys/class/net/eth0/device").rmdir()
    assert reader.counts()["net_in"] == 105.0


def test_a_file_that_is_not_there_leaves_only_its_figures_out(tmp_path: Path) -> None:
    reader = _kernel(tmp_path)
    (tmp_path / "proc/diskstats").unlink()
    (tmp_path / "proc/meminfo").write_text("nonsense")
    assert reader.counts().keys() == {"cpu_busy", "cpu_all", "net_in", "net_out"}
    assert reader.levels().keys() == {"disk_used"}


def test_a_rate_needs_two_looks_and_a_counter_that_fell_back_gives_none() -> None:
    rates = Rates()
    assert rates.since("a", 10.0, {"x": 100, "y": 5}) == {}
    assert rates.since("a", 12.0, {"x": 300, "y": 1}) == {"x": 100.0}
    assert rates.since("a", 12.0, {"x": 400}) == {}, "no time has passed"
    rates.keep_only([])
    assert rates.since("a", 20.0, {"x": 500}) == {}


# --- jobs -------------------------------------------------------------------------------------------------------------

CONTAINER = "c" * 64


def _container(root: Path, group: str, files: dict[str, str]) -> JobReader:
    """This very process plays the container's: its control group says so."""
    own = root / "proc" / str(os.getpid())
    own.mkdir(parents=True)
    (own / "cgroup").write_text(group)
    for name, text in files.items():
        path = root / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return JobReader(root / "proc", root / "groups")


def test_the_use_of_a_group_of_version_2(tmp_path: Path) -> None:
    folder = f"system.slice/docker-{CONTAINER}.scope"
    reader = _container(
        tmp_path,
        f"0::/{folder}/inner\n",
        {
            f"{folder}/cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
            f"{folder}/memory.current": "5000\n",
            f"{folder}/memory.stat": "anon 1\ninactive_file 1000\n",
            f"{folder}/io.stat": "8:0 rbytes=10 wbytes=20 rios=1\n8:16 rbytes=1 wbytes=2\n",
        },
    )
    (use,) = reader.read([JobPlace("docker/x", {}, container=CONTAINER)])
    assert use.counts == {"cpu": 2.5, "disk_read": 11.0, "disk_write": 22.0}
    assert use.levels == {"memory_used": 4000.0}


def test_the_use_of_a_group_of_version_1(tmp_path: Path) -> None:
    folder = f"docker/{CONTAINER}"
    reader = _container(
        tmp_path,
        f"4:memory:/{folder}\n3:blkio:/{folder}\n2:cpu,cpuacct:/{folder}\n0::/{folder}\n",
        {
            f"cpuacct/{folder}/cpuacct.usage": "2500000000\n",
            f"memory/{folder}/memory.usage_in_bytes": "5000\n",
            f"memory/{folder}/memory.stat": "total_inactive_file 1000\n",
            f"blkio/{folder}/blkio.throttle.io_service_bytes": "8:0 Read 10\n8:0 Write 20\n8:0 Total 30\nTotal 30\n",
        },
    )
    (use,) = reader.read([JobPlace("docker/x", {}, container=CONTAINER)])
    assert use.counts == {"cpu": 2.5, "disk_read": 10.0, "disk_write": 20.0}
    assert use.levels == {"memory_used": 4000.0}


def test_groups_that_cannot_be_seen_leave_the_processes(tmp_path: Path) -> None:
    reader = _container(tmp_path, f"0::/docker/{CONTAINER}\n", {})
    own = tmp_path / "proc" / str(os.getpid())
    (own / "stat").write_text(f"{os.getpid()} (a b) c) R 1 1 1 0 0 0 0 0 0 0 100 50 25 25 0 0 1 0 5\n")
    (own / "statm").write_text("100 10 5 0 0 0 0\n")
    (own / "io").write_text("rchar: 1\nread_bytes: 7\nwrite_bytes: 8\n")
    (use,) = reader.read([JobPlace("docker/x", {}, container=CONTAINER)])
    assert use.counts == {"cpu": 200 / os.sysconf("SC_CLK_TCK"), "disk_read": 7.0, "disk_write": 8.0}
    assert use.levels == {"memory_used": 10.0 * os.sysconf("SC_PAGE_SIZE")}


async def test_a_group_that_is_not_to_be_seen_for_one_look_invents_no_rate(tmp_path: Path) -> None:
    folder = f"docker/{CONTAINER}"
    usage = tmp_path / "groups" / folder / "cpu.stat"
    files = {
        f"{folder}/cpu.stat": "usage_usec 2000000\n",
        f"{folder}/memory.current": "5\n",
        f"{folder}/memory.stat": "",
    }
    reader = _container(tmp_path, f"0::/{folder}\n", files)
    own = tmp_path / "proc" / str(os.getpid())
    (own / "stat").write_text(f"{os.getpid()} (a) R 1 1 1 0 0 0 0 0 0 0 900000 0 0 0 0 0 1 0 5\n")
    (own / "statm").write_text("100 10 5 0 0 0 0\n")
    times = iter([10.0, 20.0, 30.0, 40.0])
    sampler = Sampler(tmp_path, cards=Cards([]), jobs=reader, steady=lambda: next(times))

    async def cpu() -> float | None:
        (job,) = (await sampler.sample([JobPlace("docker/x", {}, container=CONTAINER)])).jobs
        return job.figures.get("cpu")

    assert await cpu() is None
    usage.rename(tmp_path / "hidden")
    assert await cpu() is None, "the sum of a tree has nothing before it"
    usage.write_text("usage_usec 4000000\n")
    assert await cpu() is None
    usage.write_text("usage_usec 5000000\n")
    assert await cpu() == pytest.approx(0.1)


def test_who_has_no_process_uses_nothing(tmp_path: Path) -> None:
    reader = JobReader(tmp_path, tmp_path)
    assert reader.read([JobPlace("docker/x", {}, container=CONTAINER), JobPlace("process/y", {}, pids=())]) == []


# --- all of it --------------------------------------------------------------------------------------------------------


async def test_rates_come_with_the_second_look(tmp_path: Path) -> None:
    reader = _kernel(tmp_path)
    times = iter([10.0, 20.0])
    cards = Cards([CardFigures(0, {"use": 5.0})])
    sampler = Sampler(tmp_path, cards=cards, machine=reader, wall=lambda: 1000.0, steady=lambda: next(times))
    first = await sampler.sample([])
    assert (first.time, first.hostname, "cpu" in first.figures) == (1000.0, socket.gethostname(), False)
    (tmp_path / "proc/stat").write_text("cpu  175 0 75 1000 50 0 0 0 0 0\n")
    (tmp_path / "proc/net/dev").write_text("a\nb\n  eth0: 1100 0 0 0 0 0 0 0 200 0\n")
    second = await sampler.sample([])
    assert second.figures["cpu"] == pytest.approx(100 * 100 / 300)
    assert (second.figures["net_in"], second.figures["net_out"]) == (100.0, 0.0)
    assert [(card.index, card.simulated, card.figures) for card in second.cards] == [(0, False, {"use": 5.0})]


async def test_invented_cards_have_no_figures_and_the_real_ones_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_nvidia_smi(tmp_path, f"touch {tmp_path}/asked", monkeypatch)
    seen = await Sampler(tmp_path, parse_simulated("h200:2")).sample([])
    assert [(card.index, card.simulated, card.figures) for card in seen.cards] == [(0, True, {}), (1, True, {})]
    assert not (tmp_path / "asked").exists()


async def test_cards_that_cannot_be_read_cost_only_their_own_figures(tmp_path: Path) -> None:
    seen = await Sampler(tmp_path, cards=Cards("the driver is gone")).sample([])
    assert (seen.cards, seen.problem) == ((), "the driver is gone")
    assert seen.figures["memory_used"] > 0


async def test_a_runtime_that_cannot_be_asked_costs_only_its_jobs(tmp_path: Path) -> None:
    (tmp_path / "runtimes.json").write_text(json.dumps({"used": ["docker", "process"]}))
    nowhere = f"unix://{tmp_path}/nowhere.sock"
    engine = Engine("one", tmp_path, runtime="process", docker_host=nowhere, simulated_gpus="h200:1")
    seen = await engine.sample()
    await engine.close()
    assert seen.figures["memory_used"] > 0
    assert (len(seen.cards), seen.jobs) == (1, ())
    assert "docker does not answer" in seen.problem
