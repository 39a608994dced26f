"""What is left behind is tidied up, and nothing else: real processes, records and files; images: `test_image_pruning.py`."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from tests.tuneplane_node.bench import Bench
from tuneplane_node.daemon.janitor import HEARD_SECONDS, Janitor, image_limit
from tuneplane_node.daemon.ports import Ports
from tuneplane_node.daemon.storage_proof import IDENTITY_DIR
from tuneplane_node.engine import LABEL_ATTEMPT, LABEL_JOB, NodeError

NODE = "node-1"
LATER = datetime.now(UTC) + timedelta(days=8)


async def nobody(_job: str, _attempt: int) -> bool:
    return False


@pytest.fixture
def ports(process_bench: Bench) -> Ports:
    return Ports(process_bench.state_root / "ports.json", nobody)


@pytest.fixture
def make(process_bench: Bench, ports: Ports, tmp_path: Path) -> Callable[..., Janitor]:
    """A janitor whose clock is that of eight days from now, unless told otherwise."""

    def new(bench: Bench = process_bench, now: datetime = LATER, limit: int | None = None) -> Janitor:
        hours = count(0.0, HEARD_SECONDS)
        return Janitor(bench.engine, ports, tmp_path / "root", NODE, limit, now=lambda: now, steady=lambda: next(hours))

    return new


async def test_what_ended_long_ago_and_nobody_asked_about_is_removed(
    process_bench: Bench, make: Callable[..., Janitor]
) -> None:
    ended = await process_bench.launch("exit 3", "ended")
    await process_bench.ended(ended)
    running = await process_bench.launch(process_bench.waiting_job(), "running")
    other = process_bench.new_engine("another-console")
    foreign = await other.launch(process_bench.request("exit 0", "foreign"))
    await process_bench.ended(foreign, other)
    assert (await make(now=datetime.now(UTC)).sweep(console_heard=True)).containers == (), "it ended just now"
    assert (await make().sweep(console_heard=False)).containers == (), "the console had no chance to ask"
    assert (await make().sweep(console_heard=True)).containers == (str(ended),)
    assert [container.handle for container in await process_bench.engine.owned()] == [running]
    assert [container.handle for container in await other.owned()] == [foreign], "it is another's"
    await other.cleanup(foreign)
    process_bench.let_go()


async def test_a_console_that_was_away_is_given_an_hour_to_ask(
    process_bench: Bench, ports: Ports, tmp_path: Path
) -> None:
    ended = await process_bench.launch("exit 3")
    await process_bench.ended(ended)
    at = 0.0
    janitor = Janitor(process_bench.engine, ports, tmp_path / "root", NODE, now=lambda: LATER, steady=lambda: at)
    for moment, heard in (
        (0.0, False),
        (7200.0, True),
        (9000.0, True),
        (9600.0, False),
        (10_200.0, True),
        (13_000.0, True),
    ):
        at = moment
        assert (await janitor.sweep(console_heard=heard)).containers == (), moment
    at = 13_800.0
    assert (await janitor.sweep(console_heard=True)).containers == (str(ended),)


async def test_ports_of_what_is_gone_are_given_back_and_those_of_jobs_stay(
    process_bench: Bench, make: Callable[..., Janitor], ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuneplane_node.daemon.janitor.KEEP_PORT_SECONDS", -1.0)
    await process_bench.launch(process_bench.waiting_job(), labels={LABEL_JOB: "kept", LABEL_ATTEMPT: "2"})
    kept, gone = await ports.reserve("kept", 2), await ports.reserve("kept", 1)
    assert (await make().sweep(console_heard=True)).ports == (gone,)
    assert await ports.reserve("kept", 2) == kept
    process_bench.let_go()


async def test_a_runtime_that_cannot_be_asked_costs_nothing_its_port_or_note(
    process_bench: Bench,
    ports: Ports,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("tuneplane_node.daemon.janitor.KEEP_PORT_SECONDS", -1.0)
    port = await ports.reserve("x", 1)
    blind = process_bench.new_engine(runtime="docker", docker_host=f"unix://{tmp_path}/nowhere.sock")
    janitor = Janitor(blind, ports, tmp_path / "root", NODE, 0, now=lambda: LATER)
    with caplog.at_level(logging.INFO, "tuneplane_node"):
        swept = await janitor.sweep(console_heard=True)
        await janitor.sweep(console_heard=True)
    assert (swept.ports, swept.notes) == ((), 0)
    assert any("engine-unreachable" in problem for problem in swept.problems)
    assert await ports.reserve("x", 1) == port
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1, (
        "said once, not every round"
    )


async def test_old_proofs_of_this_node_go_and_all_else_in_the_storage_root_stays(
    make: Callable[..., Janitor], tmp_path: Path
) -> None:
    folder = tmp_path / "root" / IDENTITY_DIR
    folder.mkdir(parents=True)
    old, fresh, other, console = (
        folder / name for name in (f"node-{NODE}-1", f"node-{NODE}-2", "node-other-1", "console-1")
    )
    for path in (old, fresh, other, console, tmp_path / "root" / "data"):
        path.write_text("x")
        if path != fresh:
            make_old(path)
    assert (await make().sweep(console_heard=True)).proofs == 1
    assert sorted(path.name for path in folder.iterdir()) == sorted([fresh.name, other.name, console.name])


def make_old(path: Path) -> None:
    os.utime(path, (1_000_000_000, 1_000_000_000))


async def test_notes_of_a_card_outlive_their_container_for_a_week(
    process_bench: Bench, make: Callable[..., Janitor]
) -> None:
    cards = process_bench.state_root / "cards"
    cards.mkdir(parents=True)
    for name in ("tp-old", "tp-new"):
        (cards / name).write_text(
            '{"gpus": [0], "boot": "x", "since": 1, "runtime": "process", "labels": {}, "ending": false}'
        )
    make_old(cards / "tp-old")
    assert (await make().sweep(console_heard=True)).notes == 1
    assert [path.name for path in cards.iterdir()] == ["tp-new"]


async def test_images_are_asked_about_only_where_a_limit_is_set(
    process_bench: Bench, make: Callable[..., Janitor], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, tuple[str, ...]]] = []

    async def prune(limit: int, pinned: tuple[str, ...] = ()) -> list[str]:
        asked.append((limit, pinned))
        return ["old:1"]

    monkeypatch.setattr(process_bench.engine, "prune_images", prune)
    assert (await make().sweep(("pinned:1",), console_heard=True)).images == ()
    assert (await make(limit=7).sweep(("pinned:1",), console_heard=True)).images == ("old:1",)
    assert asked == [(7, ("pinned:1",))]
    assert (image_limit(None), image_limit(0), image_limit(1.5)) == (None, None, 1_500_000_000)


async def test_one_part_that_fails_does_not_keep_the_others_from_their_turn(
    process_bench: Bench, make: Callable[..., Janitor], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(code: str) -> Callable[..., Awaitable[int]]:
        async def fail(*_arguments: object) -> int:
            raise NodeError(code, "its own words", path="x")

        return fail

    monkeypatch.setattr(process_bench.engine, "forget_notes", failing("record-unusable"))
    ended = await process_bench.launch("exit 3")
    await process_bench.ended(ended)
    swept = await make().sweep(console_heard=True)
    assert swept.containers == (str(ended),)
    assert swept.problems == ("record-unusable: its own words",)
    assert not replace(swept, containers=()).anything
