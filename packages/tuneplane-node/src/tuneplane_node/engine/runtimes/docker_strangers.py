"""Containers of jobs that another instance launched through the same engine: found by their labels, removed by name and identity."""

from __future__ import annotations

import json
from typing import Any

from tuneplane_node.engine.problems import NodeError
from tuneplane_node.engine.requests import LABEL_INSTANCE, LABEL_JOB, RuntimeHandle, is_launch_name
from tuneplane_node.engine.runtimes import container_state as states
from tuneplane_node.engine.runtimes.engine_api import ApiError, EngineApi
from tuneplane_node.engine.strangers import Stranger, cards_in, stranger_of

REMOVE_SECONDS = 60.0
MOST = 200  # of which the cards are looked up
_LIVING = frozenset({"running", "paused", "restarting", "removing", "created"})


async def find_strangers(api: EngineApi, runtime: str, instance: str) -> list[Stranger]:
    """Raises NodeError."""
    filters = json.dumps({"label": [LABEL_JOB]})
    found: list[Stranger] = []
    try:
        listed = await api.call("GET", "/containers/json", params={"all": 1, "filters": filters})
        for entry in listed:
            labels = dict(entry["Labels"] or {})
            if labels.get(LABEL_INSTANCE) == instance or not entry["Names"]:
                continue
            name = str(entry["Names"][0]).lstrip("/")
            if not is_launch_name(name):
                continue  # somebody's copy of our labels
            handle = RuntimeHandle(runtime, name)
            running = str(entry.get("State") or "running") in _LIVING
            gpus = await _cards(api, handle.name) if running and len(found) < MOST else ()
            stranger = stranger_of(handle, labels, running=running, gpus=gpus)
            if stranger is not None:
                found.append(stranger)
    except (ApiError, AttributeError, KeyError, TypeError, ValueError) as problem:
        raise NodeError("engine-refused", str(problem), runtime=runtime) from problem
    return found


async def end_stranger(api: EngineApi, stranger: Stranger) -> bool:
    """Whoever has the name now must be that one: names are given again."""
    name = stranger.handle.name
    try:
        if not _is(await _inspect(api, name), stranger):
            return True
        try:
            await api.call("DELETE", f"/containers/{name}", params={"force": 1, "v": 1}, seconds=REMOVE_SECONDS)
        except ApiError:
            pass  # gone already, being removed, or busy: only a look decides
        return not _is(await _inspect(api, name), stranger)
    except (ApiError, NodeError):
        return False


def _is(inspected: dict[str, Any] | None, stranger: Stranger) -> bool:
    labels = ((inspected or {}).get("Config") or {}).get("Labels") or {}
    return stranger_of(stranger.handle, labels, running=stranger.running, gpus=stranger.gpus) == stranger


async def _cards(api: EngineApi, name: str) -> tuple[int, ...] | None:
    found = await _inspect(api, name)
    if found is None:
        return ()
    pairs = (str(entry).partition("=") for entry in (found.get("Config") or {}).get("Env") or ())
    return cards_in({variable: value for variable, _equals, value in pairs}, "NVIDIA_VISIBLE_DEVICES")


async def _inspect(api: EngineApi, name: str) -> dict[str, Any] | None:
    try:
        answer = await api.call("GET", f"/containers/{name}/json")
    except ApiError as problem:
        if states.is_no_such_container(problem.status, problem.message):
            return None
        raise
    return answer if isinstance(answer, dict) else None
