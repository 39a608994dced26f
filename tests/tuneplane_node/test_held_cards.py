"""Cards stay with a job until nothing of it holds them: NVIDIA's tool played by a script, real processes, real records."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tuneplane_node.bench import Bench
from tests.tuneplane_node.test_inventory import install_nvidia_smi
from tuneplane_node.engine import LABEL_JOB, RuntimeHandle
from tuneplane_node.engine.held_cards import HeldCards
from tuneplane_node.engine.problems import NodeError
from tuneplane_node.engine.sampling.cards import CardsUnreadableError, Holder, parse_holders
from tuneplane_node.engine.supervisor.procfs import ProcessIdentity

CARDS = "0, GPU-aaa\n1, GPU-bbb\n"


def says(printed: Path, text: str) -> None:
    """From now on the driver says this of who holds cards."""
    printed.write_text(text)


@pytest.fixture
def holders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the driver says of processes on the two cards of this machine: the file's lines."""
    folder = tmp_path / "driver"
    folder.mkdir()
    printed = folder / "holders"
    printed.write_text("")
    install_nvidia_smi(
        folder,
        f"case $1 in\n"
        f"*compute-apps*) cat {printed};;\n"
        f"*index,uuid,name*) printf '0, GPU-aaa, NVIDIA H200, 143771, 570\\n1, GPU-bbb, NVIDIA H200, 143771, 570\\n';;\n"
        f"*) printf '0, GPU-aaa\\n1, GPU-bbb\\n';; esac",
        monkeypatch,
    )
    return printed


def waiting() -> subprocess.Popen[bytes]:
    """A process that lives until its standard input is closed."""
    return subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """One that was started in an earlier tick of the kernel's clock than whatever comes after."""
    running = waiting()
    tick = 1.0 / os.sysconf("SC_CLK_TCK")
    started = ProcessIdentity.of(running.pid).start_time * tick
    while time.clock_gettime(time.CLOCK_BOOTTIME) < started + tick:
        time.sleep(tick)
    yield running
    running.communicate(timeout=60)


async def test_a_cleanup_is_not_confirmed_while_a_process_holds_a_card_of_the_job(
    process_bench: Bench, holders: Path
) -> None:
    """Scenario 23."""
    handle = await process_bench.launch("exit 0", gpus=(1,))
    await process_bench.ended(handle)
    gone = 2**22 - 1  # a pid that nothing has: the driver still tears it down
    says(holders, f"GPU-bbb, {gone}, python3\n")
    assert not await process_bench.engine.cleanup(handle)
    assert (await process_bench.engine.observe(handle)).state == "absent", "the record is gone, the card is not free"
    held = [found for found in await process_bench.engine.check() if found.code == "gpu-held"]
    assert [found.text for found in held] == [f"Processes still hold GPU 1: python3 ({gone})"]
    (owned,) = await process_bench.new_engine().owned()
    assert (owned.handle, owned.labels[LABEL_JOB]) == (handle, "0123456789abcdef"), "who asks by the job finds it still"
    assert not await process_bench.new_engine().cleanup(handle), "also after a restart of the daemon"
    says(holders, f"GPU-aaa, {gone}, python3\n")
    assert await process_bench.engine.cleanup(handle), "another job's card is none of its business"
    assert await process_bench.engine.owned() == []
    assert not [found for found in await process_bench.engine.check() if found.code == "gpu-held"]


async def test_a_process_that_was_there_before_the_job_does_not_keep_its_card(
    process_bench: Bench, holders: Path, process: subprocess.Popen[bytes]
) -> None:
    handle = await process_bench.launch("exit 0", gpus=(0, 1))
    await process_bench.ended(handle)
    says(holders, f"GPU-aaa, {process.pid}, /usr/lib/xorg/Xorg\n")
    assert await process_bench.engine.cleanup(handle)


async def test_a_process_that_came_with_the_job_keeps_its_card(process_bench: Bench, holders: Path) -> None:
    handle = await process_bench.launch("exit 0", gpus=(0,))
    await process_bench.ended(handle)
    with waiting() as later:
        says(holders, f"GPU-aaa, {later.pid}, a, name\n")
        assert not await process_bench.engine.cleanup(handle)
        later.communicate(timeout=60)
    says(holders, "")
    assert await process_bench.engine.cleanup(handle)


async def test_a_driver_that_says_nothing_proves_nothing(process_bench: Bench, holders: Path) -> None:
    handle = await process_bench.launch("exit 0", gpus=(0,))
    await process_bench.ended(handle)
    says(holders, "Unable to determine the device handle for GPU0: GPU is lost.\n")
    assert not await process_bench.engine.cleanup(handle)
    assert "gpu-query-failed" in [found.code for found in await process_bench.engine.check()]
    says(holders, "")
    assert await process_bench.engine.cleanup(handle)


async def test_a_job_without_cards_asks_no_driver(
    process_bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_nvidia_smi(tmp_path, f"touch {tmp_path}/asked", monkeypatch)
    handle = await process_bench.launch("exit 0")
    await process_bench.ended(handle)
    assert await process_bench.engine.cleanup(handle)
    assert not (tmp_path / "asked").exists()
    assert not (process_bench.state_root / "cards").exists()


X = RuntimeHandle("docker", "tp-x")


class Driver:
    async def holders(self) -> list[Holder]:
        return [Holder(0, None, "")]


async def test_a_machine_that_was_started_again_holds_nothing_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards = HeldCards(tmp_path / "cards", Driver())
    await cards.note(X, {}, (0,))
    with pytest.raises(NodeError, match="gpu-held"):
        await cards.release("tp-x")
    monkeypatch.setattr("tuneplane_node.engine.held_cards.boot_id", lambda: "another boot")
    await cards.release("tp-x")
    assert list((tmp_path / "cards").iterdir()) == []


async def test_a_spoilt_note_frees_nothing_and_hides_nothing(tmp_path: Path) -> None:
    cards = HeldCards(tmp_path / "cards", Driver())
    await cards.note(X, {"a": "b"}, (0,))
    await cards.begin_end("tp-x")
    (tmp_path / "cards" / "spoilt").write_text("[]")
    (tmp_path / "cards" / "older").write_text("{}")
    assert [(item.handle, item.labels) for item in await cards.held()] == [(X, {"a": "b"})]
    for name in ("spoilt", "older"):
        with pytest.raises(NodeError, match="record-unusable"):
            await cards.release(name)


async def test_notes_of_what_is_gone_are_forgotten_after_a_while(tmp_path: Path) -> None:
    cards = HeldCards(tmp_path / "cards", Driver())
    await cards.note(RuntimeHandle("docker", "kept"), {}, (0,))
    await cards.note(RuntimeHandle("docker", "gone"), {}, (0,))
    assert await cards.held() == [], "nobody has begun to clean up"
    assert await cards.keep_only({"kept"}, older_than_seconds=3600) == 0
    assert await cards.keep_only({"kept"}, older_than_seconds=-1) == 1
    assert [path.name for path in (tmp_path / "cards").iterdir()] == ["kept"]


@pytest.mark.parametrize(("cards", "printed"), [
    (CARDS, "no comma"), (CARDS, "GPU-ccc, 1, x"), ("No devices were found", ""), ("x, GPU-aaa", ""),
])  # fmt: skip
def test_what_cannot_be_read_is_not_taken_for_free_cards(cards: str, printed: str) -> None:
    with pytest.raises(CardsUnreadableError):
        parse_holders(cards, printed)


def test_holders_are_read_by_card() -> None:
    printed = "GPU-bbb, 4242, /usr/bin/python3, with a comma\n\nGPU-aaa, [N/A], [Not Found]\n"
    assert parse_holders(CARDS, printed) == [
        Holder(1, 4242, "/usr/bin/python3, with a comma"),
        Holder(0, None, "[Not Found]"),
    ]
    assert parse_holders(CARDS, "") == []
