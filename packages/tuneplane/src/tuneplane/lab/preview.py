"""What the first machine of a job would run, worked out here with the adapter that the runner uses there.

What only the console knows (paths, the run id) stands as the variable that will hold it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tuneplane import adapters
from tuneplane.contract import words
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.recipes.index import Entry
from tuneplane.runner.capsule import Capsule
from tuneplane.runner.environment import identity_environment

_UNKNOWN_DIGEST = "0" * 64


@dataclass(frozen=True)
class Preview:
    """`command` in `cwd` (below the work dir); `env` by name; `files` (path below the work dir -> text) written before the start."""

    command: list[str]
    cwd: str
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


def preview(jobspec: dict[str, Any], entry: Entry) -> Preview:
    """Raises `RefusedError` when this client has no adapter for the framework."""
    capsule = _capsule(jobspec, entry)
    pools = capsule["topology"]["pools"]
    machine = adapters.Machine(
        count=capsule["topology"]["machine_count"], gpus_per_node=pools[0]["gpus_per_node"] if pools else 0
    )
    try:
        command = adapters.compile(capsule, machine)
    except adapters.AdapterError as error:
        message = _("this client cannot make the command: {why}").format(why=error.detail)
        raise RefusedError([Refusal("runtime-unresolved", message, field="spec.framework.kind")]) from None
    identity = identity_environment(Capsule(capsule), machine)
    env = {**command.env, **jobspec["spec"].get("env", {})}
    env |= {name: value for name, value in identity.items() if value is not None}
    return Preview(list(command.argv), command.cwd_relative, dict(sorted(env.items())), dict(command.files))


def _capsule(jobspec: dict[str, Any], entry: Entry) -> dict[str, Any]:
    spec, manifest = jobspec["spec"], entry["manifest"]
    resources: dict[str, Any] = spec["resources"]
    pools: list[dict[str, Any]] = [{"roles": _roles(resources, pool), **pool} for pool in resources["pools"]]
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
            "base_model": model.get("base"),
            "init_model": model.get("init_from"),
        },
        "ingest": {"url": f"${words.ENV_INGEST_URL}"},
        "digests": {"package": jobspec["provenance"]["package_digest"], "runner": _UNKNOWN_DIGEST},
    }


def _roles(resources: dict[str, Any], pool: dict[str, Any]) -> list[str]:
    return [role for role, name in resources.get("roles", {}).items() if name == pool["name"]]


def _data(ref: dict[str, Any] | None) -> str | None:
    return None if ref is None else ref.get("path") or ref.get("dataset")
