"""Two machines of one job, each under an engine of its own with state of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tuneplane_node.bench import Bench, is_held
from tuneplane_node.engine import Engine, RuntimeHandle


@pytest.fixture
async def second(bench: Bench, tmp_path: Path) -> AsyncIterator[Engine]:
    engine = Engine(f"{bench.instance}-2", tmp_path / "state-2", **bench.engine_options())
    yield engine
    for container in await engine.owned():
        await engine.cleanup(container.handle)
    await engine.close()


async def test_an_abort_on_two_machines_leaves_nothing_on_either(bench: Bench, second: Engine) -> None:
    """Scenario 23: the ranks and what escaped from them ignore SIGTERM; after the grace all are killed on both machines,
    and only then is either of them said to be free."""
    engines = [bench.engine, second]
    fifos = [bench.fifo(f"held-{rank}") for rank in range(2)]
    handles: list[RuntimeHandle] = []
    for rank, engine in enumerate(engines):
        escaped = (
            f'setsid sh -c \'trap "" TERM HUP; exec 3<>{fifos[rank]}; touch {bench.directory}/up-{rank}; '
            "while :; do sleep 1; done'"
        )
        script = f"trap '' TERM; ({escaped} &); while :; do sleep 1; done"
        handles.append(await engine.launch(bench.request(script, f"rank-{rank}")))
    for rank in range(2):
        await bench.exists(f"up-{rank}")
        assert is_held(fifos[rank])

    async def end(rank: int) -> None:
        await engines[rank].stop(handles[rank], 0.5)
        assert not is_held(fifos[rank])

    await asyncio.gather(end(0), end(1))
    for rank, engine in enumerate(engines):
        seen = await engine.observe(handles[rank])
        assert (seen.state, seen.exit_code, seen.signal) == ("exited", 137, 9)
        assert await engine.cleanup(handles[rank])
        assert await engine.owned() == []
