"""From `local` to `agent`: what the console began on its own machine lives on there, whatever nodes there are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from tests.tuneplane_server.executors.nodes import Directory
from tests.tuneplane_server.executors.test_contract import SLEEPS, Stage
from tuneplane_server.clock import SYSTEM_CLOCK
from tuneplane_server.executors.agent.building import Beat, build_agent
from tuneplane_server.executors.agent.executor import AgentExecutor
from tuneplane_server.executors.local import LocalExecutor
from tuneplane_server.executors.port import CleanupState, ExecutorUnreachableError, Handle, LaunchPlan
from tuneplane_server.settings import Settings, load_settings


@dataclass
class Change:
    """A run that `before` launched, and the executor of the same console after the change of its setting."""

    settings: Settings
    plan: LaunchPlan
    handle: Handle
    after: AgentExecutor


async def nobody(_job: str, _attempt: int) -> list[Beat]:
    return []


def agent(settings: Settings) -> AgentExecutor:
    return build_agent(settings, Directory(), lambda: "0123456789abcdef", SYSTEM_CLOCK, "mine", nobody)


@pytest.fixture
async def change(tmp_path: Path) -> AsyncIterator[Change]:
    settings = load_settings({"TUNEPLANE_STORAGE_ROOT": str(tmp_path / "root"), "TUNEPLANE_RUNTIME": "process"})
    before = LocalExecutor(settings, "mine")
    await before.open()
    stage = Stage(before, tmp_path)
    plan = stage.plan(SLEEPS)
    handle = await before.launch(plan)
    await before.close()
    after = agent(settings)
    await after.open()
    yield Change(settings, plan, handle, after)
    for item in await after.owned():
        await after.cleanup(item)
    await after.close()


async def test_a_run_of_the_time_before_is_seen_stopped_and_cleaned_up(change: Change) -> None:
    kept = Handle.from_json(change.handle.to_json())
    assert (await change.after.observe(kept)).running
    assert await change.after.owned() == [change.handle]
    await change.after.stop(kept, timedelta(seconds=20))
    seen = await change.after.observe(kept)
    assert seen.exit is not None
    assert seen.exit.exit_code == 143
    assert await change.after.cleanup(kept) is CleanupState.CONFIRMED
    assert await change.after.owned() == []


@pytest.mark.parametrize("nodes", [(), ("this-machine",)], ids=["as it was stored then", "with its machine's name"])
async def test_a_launch_nobody_saw_the_end_of_is_looked_for_here_too(change: Change, nodes: tuple[str, ...]) -> None:
    planned = Handle(change.plan.job_id, 1, nodes=nodes)
    assert [item.job_id for item in await change.after.owned(nodes)] == [change.plan.job_id]
    assert await change.after.cleanup(planned) is CleanupState.CONFIRMED
    assert await change.after.owned() == []


async def test_capabilities_are_those_of_the_nodes_and_not_of_this_machine(change: Change) -> None:
    able = change.after.capabilities()
    assert (able.image_form, able.isolates, able.multi_node, able.one_console) == ("oci", True, True, False)
    assert await change.after.nodes() == []
    (finding,) = await change.after.check()
    assert (finding.code, finding.level) == ("nodes", "warning")


async def test_a_console_that_began_nothing_here_knows_nothing_of_it(tmp_path: Path, change: Change) -> None:
    """Another installation on the same database: unknown, and never gone."""
    other = load_settings({"TUNEPLANE_STORAGE_ROOT": str(tmp_path / "other"), "TUNEPLANE_RUNTIME": "process"})
    executor = agent(other)
    await executor.open()
    assert (await executor.observe(change.handle)).presence == "unknown"
    assert await executor.cleanup(change.handle) is CleanupState.UNKNOWN
    with pytest.raises(ExecutorUnreachableError):
        await executor.stop(change.handle, timedelta(seconds=1))
    await executor.close()
