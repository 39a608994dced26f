"""A machine whose state directory was lost finds what its earlier self had launched: by labels, by what processes carry, by nothing else."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tuneplane_node.bench import Bench, is_held, until
from tests.tuneplane_node.conftest import make_bench
from tuneplane_node.engine import Engine, NodeError, Stranger
from tuneplane_node.engine.strangers import cards_in

JOB = "0123456789abcdef"


@pytest.fixture(
    params=[
        "process",
        pytest.param("docker", marks=pytest.mark.services),
        pytest.param("podman", marks=pytest.mark.services),
    ]
)
async def any_bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    made = make_bench(request, request.param, tmp_path)
    yield made
    await made.clean()


@pytest.fixture
async def reborn(any_bench: Bench, tmp_path: Path) -> AsyncIterator[Engine]:
    """The machine's engine of after its state was lost."""
    engine = Engine("another-id", tmp_path / "new-state", **any_bench.engine_options())
    yield engine
    await engine.close()


async def mine(engine: Engine, bench: Bench) -> list[Stranger]:
    """Without those of whoever else uses this machine."""
    return [each for each in await engine.strangers() if each.instance == bench.instance]


async def test_what_an_earlier_self_left_is_found_and_ended(any_bench: Bench, reborn: Engine) -> None:
    fifo = any_bench.fifo("held")
    handle = await any_bench.launch(f"exec 3<>{fifo}; {any_bench.waiting_job()}")
    await any_bench.exists("ready")
    assert await mine(any_bench.engine, any_bench) == [], "it is its own"
    shutil.rmtree(any_bench.state_root)
    (found,) = await mine(reborn, any_bench)
    assert (found.handle, found.job, found.attempt, found.running) == (handle, JOB, "1", True)
    assert found.gpus == ()
    assert await reborn.owned() == [], "to nobody's job is it answered for"
    assert await reborn.end_strangers(JOB, "1", "some-other-id")
    assert is_held(fifo), "of another id nothing was told to end"
    assert await reborn.end_strangers(JOB, "1", any_bench.instance)
    await until(lambda: is_held(fifo), lambda held: not held)
    assert await mine(reborn, any_bench) == []
    assert await reborn.end_strangers(JOB, "1", any_bench.instance), "said again"


async def test_a_job_whose_record_is_kept_is_another_daemons(process_bench: Bench, tmp_path: Path) -> None:
    """Two daemons on one machine, as developers have them: neither has lost anything."""
    await process_bench.launch(process_bench.waiting_job())
    await process_bench.exists("ready")
    other = Engine("another-id", tmp_path / "other-state", **process_bench.engine_options())
    assert await mine(other, process_bench) == []
    assert await other.end_strangers(JOB, "1", process_bench.instance)
    await other.close()
    process_bench.let_go()
    assert (await process_bench.ended(process_bench.handle())).exit_code == 0


async def test_it_says_which_cards_it_holds(process_bench: Bench, tmp_path: Path) -> None:
    engine = process_bench.new_engine(simulated_gpus="h200:4")
    await engine.launch(process_bench.request(process_bench.waiting_job(), gpus=(1, 3)))
    await process_bench.exists("ready")
    shutil.rmtree(process_bench.state_root)
    reborn = Engine("another-id", tmp_path / "new-state", **process_bench.engine_options())
    (found,) = await mine(reborn, process_bench)
    assert [index for index in range(4) if found.holds(index)] == [1, 3]
    assert await reborn.end_strangers(JOB, "1", process_bench.instance)
    await reborn.close()


@pytest.mark.parametrize(
    ("env", "cards"),
    [
        ({"A": "0,2"}, (0, 2)),
        ({"B": "5"}, (5,)),
        ({"A": "void", "B": "5"}, ()),
        ({"A": ""}, ()),
        ({"A": "all"}, None),
        ({"A": "GPU-8f2c"}, None),
        ({}, None),
    ],
)
def test_cards_by_what_the_environment_says(env: dict[str, str], cards: tuple[int, ...] | None) -> None:
    assert cards_in(env, "A", "B") == cards


async def test_an_engine_that_is_away_says_so(tmp_path: Path) -> None:
    engine = Engine("id", tmp_path, runtime="docker", docker_host=f"unix://{tmp_path}/none.sock")
    with pytest.raises(NodeError):
        await engine.strangers()
    await engine.close()
