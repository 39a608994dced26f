"""What the engine says when it cannot launch becomes a reason of the table, to be tried again or not (scenario 22)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tuneplane_node.engine import Engine, NodeError
from tuneplane_server.domain.reasons import REASONS
from tuneplane_server.executors.local import LocalExecutor
from tuneplane_server.executors.port import (
    CleanupState,
    ExecutorUnreachableError,
    Handle,
    LaunchDelayedError,
    LaunchPlan,
    LaunchRefusedError,
    MachinePlan,
)
from tuneplane_server.settings import load_settings


def executor_that_meets(error: NodeError, folder: Path) -> LocalExecutor:
    class RefusingEngine(Engine):
        async def launch(self, request: Any) -> Any:
            raise error

    return LocalExecutor(load_settings({"TUNEPLANE_STORAGE_ROOT": str(folder)}), "test", RefusingEngine)


def plan(folder: Path) -> LaunchPlan:
    return LaunchPlan("0" * 16, 1, "x:1", folder, {}, (), (), (MachinePlan(0, "node", (), None, None),))


@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        ("image-not-found", LaunchRefusedError, "image-not-found"),
        ("image-unauthorized", LaunchRefusedError, "image-unauthorized"),
        ("image-disk-full", LaunchRefusedError, "image-disk-full"),
        ("image-tls", LaunchRefusedError, "image-tls"),
        ("image-rate-limited", LaunchDelayedError, "image-rate-limited"),
    ],
)
async def test_five_ways_a_pull_fails_are_five_reasons(
    tmp_path: Path, code: str, kind: type[LaunchRefusedError | LaunchDelayedError], reason: str
) -> None:
    """Scenario 22: the reasons; that engines really fail so is in tests/tuneplane_node/test_image_pull.py."""
    executor = executor_that_meets(
        NodeError(code, "the engine's own words", image="registry.example.org/x:1"), tmp_path
    )
    with pytest.raises(kind) as caught:
        await executor.launch(plan(tmp_path))
    assert caught.value.reason == reason
    assert caught.value.data["image"] == "registry.example.org/x:1"
    assert "the engine's own words" in caught.value.data["detail"]


@pytest.mark.parametrize(
    "nodes",
    [("slurm/0000000000000000-1/0",), ("slurm/0000000000000000-1/0", "slurm/0000000000000000-1/1")],
    ids=["one machine", "two machines"],
)
async def test_what_another_executor_was_about_to_launch_is_neither_started_nor_gone_here(
    tmp_path: Path, nodes: tuple[str, ...]
) -> None:
    """TUNEPLANE_EXECUTOR was changed between its placement and the record of its launch: it may run there."""
    asked: list[Any] = []

    class RecordingEngine(Engine):
        async def launch(self, request: Any) -> Any:
            asked.append(request)
            raise NodeError("name-conflict", name="tp-1")

    executor = LocalExecutor(load_settings({"TUNEPLANE_STORAGE_ROOT": str(tmp_path)}), "test", RecordingEngine)
    machines = tuple(MachinePlan(rank, node, (0,), None, None) for rank, node in enumerate(nodes))
    with pytest.raises(ExecutorUnreachableError, match="TUNEPLANE_EXECUTOR"):
        await executor.launch(replace(plan(tmp_path), machines=machines))
    assert asked == []
    assert await executor.cleanup(Handle("0" * 16, 1, nodes=nodes)) is CleanupState.UNKNOWN


async def test_a_code_that_is_no_reason_is_a_failed_launch_with_the_engines_words(tmp_path: Path) -> None:
    executor = executor_that_meets(NodeError("name-conflict", name="tp-1"), tmp_path)
    with pytest.raises(LaunchRefusedError) as caught:
        await executor.launch(plan(tmp_path))
    assert caught.value.reason == "launch-failed"
    assert "tp-1" in caught.value.data["detail"]


async def test_an_engine_that_is_away_is_not_a_failure(tmp_path: Path) -> None:
    executor = executor_that_meets(NodeError("engine-unreachable", runtime="docker", address="unix:///x"), tmp_path)
    with pytest.raises(ExecutorUnreachableError):
        await executor.launch(plan(tmp_path))


def test_the_five_reasons_have_five_hints() -> None:
    """Scenario 22: each says something else to do, in words of its own."""
    codes = ("image-not-found", "image-unauthorized", "image-disk-full", "image-tls", "image-rate-limited")
    assert len({REASONS[code].hint for code in codes}) == len({REASONS[code].text for code in codes}) == 5
