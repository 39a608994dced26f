"""What the machines of a job would run, worked out here with the adapter and the environment that the runner uses there.

What only the console knows (paths, the run id, the main machine's address) stands as the variable that will hold it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tuneplane import adapters
from tuneplane.contract import words
from tuneplane.contract.names import parse_hub_ref, parse_owned_ref
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.recipes.index import Entry
from tuneplane.runner.capsule import Capsule
from tuneplane.runner.environment import build_environment
from tuneplane.runner.machine import pool_of

_UNKNOWN_DIGEST = "0" * 64


@dataclass(frozen=True)
class Preview:
    """Of machine 0: `command` in `cwd` (below the work dir); `env` by name; `files` (path below the work dir -> text) written before
    the start. `others`: of one further machine of each pool, its rank and command; the rest differ in their rank alone."""

    command: list[str]
    cwd: str
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    others: dict[int, list[str]] = field(default_factory=dict)


def preview(jobspec: dict[str, Any], entry: Entry) -> Preview:
    """Raises `RefusedError` when this client has no adapter for the framework."""
    capsule = _capsule(jobspec, entry)
    pools = capsule["topology"]["pools"]
    machine = planned_machine(pools, 0)
    try:
        command = adapters.compile(capsule, machine)
        others = {
            rank: list(adapters.compile(capsule, planned_machine(pools, rank)).argv) for rank in _further_ranks(pools)
        }
    except adapters.AdapterError as error:
        message = _("this client cannot make the command: {why}").format(why=error.detail)
        raise RefusedError([Refusal("runtime-unresolved", message, field="spec.framework.kind")]) from None
    user = {words.ENV_USER_PREFIX + name: value for name, value in jobspec["spec"].get("env", {}).items()}
    env = build_environment(Capsule(capsule), machine, user, command.env)
    return Preview(list(command.argv), command.cwd_relative, dict(sorted(env.items())), dict(command.files), others)


def planned_machine(pools: list[dict[str, Any]], rank: int) -> adapters.Machine:
    """A machine of a job that has not started: where the main one will listen is known then."""
    count = sum(pool["nodes"] for pool in pools) or 1
    gpus = pool_of(pools, rank).get("gpus_per_node", 0)
    if count == 1:
        return adapters.Machine(gpus_per_node=gpus)
    return adapters.Machine(rank=rank, count=count, gpus_per_node=gpus, main_ip=f"${words.ENV_MAIN_IP}")


def _further_ranks(pools: list[dict[str, Any]]) -> list[int]:
    """The first machine of each pool that is not machine 0."""
    ranks, first = [], 0
    for pool in pools:
        if first == 0 and pool["nodes"] > 1:
            ranks.append(1)
        elif first > 0:
            ranks.append(first)
        first += pool["nodes"]
    return ranks


def _capsule(jobspec: dict[str, Any], entry: Entry) -> dict[str, Any]:
    spec, manifest = jobspec["spec"], entry["manifest"]
    resources: dict[str, Any] = spec["resources"]
    pools: list[dict[str, Any]] = [
        {key: pool[key] for key in ("name", "nodes", "gpus_per_node")} | {"roles": _roles(resources, pool, manifest)}
        for pool in resources["pools"]
    ]
    data, model = spec.get("data", {}), spec.get("model", {})
    return {
        "apiVersion": words.CAPSULE_API_VERSION,
        "job": {"id": f"${words.ENV_RUN_ID}", "owner": "", "attempt": 1},
        "jobspec": jobspec,
        "recipe": {
            "entrypoint": manifest["entrypoint"],
            "adapter_options": manifest["adapter_options"],
            "metrics": manifest.get("metrics", {}),
            "validation": manifest.get("validation", {}),
            "artifacts": manifest.get("artifacts", {}),
            "param_paths": {name: param["path"] for name, param in manifest["params"].items()},
        },
        "topology": {"pools": pools, "machine_count": sum(pool["nodes"] for pool in pools) or 1},
        "paths": {
            "storage_root": f"${words.ENV_STORAGE_ROOT}",
            "out_dir": f"${words.ENV_OUT_DIR}",
            "spool_dir": f"${words.ENV_STORAGE_ROOT}/spool",
            "package": f"${words.ENV_STORAGE_ROOT}/packages/{jobspec['provenance']['package_digest']}",
            "data_cache": f"${words.ENV_DATA_CACHE}",
            "hub_cache": f"${words.ENV_HUB_CACHE}",
            "volumes_dir": f"${words.ENV_VOLUMES_DIR}",
            "train_data": _data(data.get("train")),
            "validation_data": _data(data.get("validation")),
            "base_model": _model(model.get("base")),
            "init_model": _model(model.get("init_from")),
        },
        "ingest": {"url": f"${words.ENV_INGEST_URL}"},
        "digests": {"package": jobspec["provenance"]["package_digest"], "runner": _UNKNOWN_DIGEST},
    }


def _roles(resources: dict[str, Any], pool: dict[str, Any], manifest: dict[str, Any]) -> list[str]:
    """As the console has it: one pool hosts all roles."""
    roles: dict[str, str] = resources.get("roles", {})
    if not roles and len(resources["pools"]) == 1:
        return list(manifest["roles"])
    return [role for role, name in sorted(roles.items()) if name == pool["name"]]


def _data(ref: dict[str, Any] | None) -> str | None:
    if ref is None or ref.get("path"):
        return None if ref is None else ref["path"]
    named = parse_owned_ref(ref.get("dataset") or "")
    return None if named is None else f"${words.ENV_STORAGE_ROOT}/datasets/{named.owner}/{named.name}/{named.version}"


def _model(text: str | None) -> str | None:
    """A model of a hub goes by its name there; what a run left is found by the console."""
    hub = parse_hub_ref(text) if text else None
    return text if text is None or hub is None or hub.hub == "tp" else text.partition(":")[2]
