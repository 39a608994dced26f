"""A launch request as the body of a create call: Docker's, and Podman's own. Pure.

Podman is created through its own API because its Docker-compatible one swaps the soft and hard limits of 4.3 and passes
no GPU in any version (podman issues 22645 and 19338); everything after creation goes through the compatible one.
"""

from __future__ import annotations

import resource
from typing import Any

from tuneplane_node.engine.requests import LaunchRequest
from tuneplane_node.engine.runtimes.engine_api import EngineFacts

MAX_LOG = 8 * 1024 * 1024  # what bootstrap and runner print; the trainer's output goes through the spool
MAX_FILES = 20_000
MAX_PIDS = 32_768  # threads count too: eight ranks with their loaders need thousands; the kernel's usual pid_max
CPU_PERIOD = 100_000  # microseconds, the kernel's default


def docker_body(request: LaunchRequest, facts: EngineFacts, user: str | None) -> dict[str, Any]:
    """For `POST /containers/create`. The command replaces the image's entry point, which may start anything."""
    host: dict[str, Any] = {
        "NetworkMode": "host",
        "IpcMode": "private",
        "Init": True,
        "AutoRemove": False,
        "RestartPolicy": {"Name": "no"},
        "Privileged": False,
        "SecurityOpt": ["no-new-privileges", *(["label=disable"] if facts.selinux else [])],
        "LogConfig": {"Type": "local", "Config": {"max-size": str(MAX_LOG), "max-file": "2"}},
        "ShmSize": _shared_memory(request, facts),
        "PidsLimit": MAX_PIDS,
        "Mounts": [
            {"Type": "bind", "Source": mount.source, "Target": mount.target, "ReadOnly": mount.read_only}
            for mount in request.mounts
        ],
        "Ulimits": [{"Name": name, "Soft": limit, "Hard": limit} for name, limit in _process_limits(facts).items()],
    }
    if request.cpus is not None:
        host["NanoCpus"] = int(request.cpus * 1_000_000_000)
    if request.memory_bytes is not None:
        host |= {"Memory": request.memory_bytes, "MemorySwap": request.memory_bytes}
    if request.gpus:
        host["DeviceRequests"] = [
            {"Driver": "nvidia", "DeviceIDs": [str(gpu) for gpu in request.gpus], "Capabilities": [["gpu"]]}
        ]
    body: dict[str, Any] = {
        "Image": request.image,
        "Entrypoint": list(request.command),
        "Env": [f"{key}={value}" for key, value in request.env.items()],
        "Labels": dict(request.labels),
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": host,
    }
    if request.workdir is not None:
        body["WorkingDir"] = request.workdir
    if user is not None:
        body["User"] = user
    return body


def podman_body(request: LaunchRequest, facts: EngineFacts, user: str | None, init: bool) -> dict[str, Any]:
    """For `POST /libpod/containers/create`."""
    limits: dict[str, Any] = {"pids": {"limit": MAX_PIDS}}
    if request.cpus is not None:
        limits["cpu"] = {"quota": int(request.cpus * CPU_PERIOD), "period": CPU_PERIOD}
    if request.memory_bytes is not None:
        limits["memory"] = {"limit": request.memory_bytes, "swap": request.memory_bytes}
    body: dict[str, Any] = {
        "name": request.name,
        "image": request.image,
        "entrypoint": list(request.command),
        "env": dict(request.env),
        "labels": dict(request.labels),
        "healthconfig": {"Test": ["NONE"]},
        "netns": {"nsmode": "host"},
        "ipcns": {"nsmode": "private"},
        "init": init,
        "remove": False,
        "privileged": False,
        "no_new_privileges": True,
        "log_configuration": {"driver": "k8s-file", "size": MAX_LOG},
        "shm_size": _shared_memory(request, facts),
        "resource_limits": limits,
        "mounts": [
            {
                "type": "bind",
                "source": mount.source,
                "destination": mount.target,
                "options": ["rbind", "ro" if mount.read_only else "rw"],
            }
            for mount in request.mounts
        ],
        "r_limits": [{"type": name, "soft": limit, "hard": limit} for name, limit in _process_limits(facts).items()],
    }
    if facts.selinux:
        body["selinux_opts"] = ["disable"]
    if request.gpus:
        body["devices"] = [{"path": f"nvidia.com/gpu={gpu}"} for gpu in request.gpus]
    if request.workdir is not None:
        body["work_dir"] = request.workdir
    if user is not None:
        body["user"] = user
    return body


def _shared_memory(request: LaunchRequest, facts: EngineFacts) -> int:
    """Size of /dev/shm in bytes: data loaders and NCCL need gigabytes, not the engines' 64 MB. It is a limit, not a use."""
    return max((request.memory_bytes or facts.memory_bytes) // 2, 64 * 1024 * 1024)


def _process_limits(facts: EngineFacts) -> dict[str, int]:
    """Soft and hard alike, and never above our own, which an engine without CAP_SYS_RESOURCE cannot pass."""
    limits = {"nofile": _at_most(resource.RLIMIT_NOFILE, MAX_FILES)}
    if facts.podman:  # its own default of a million is refused where the service may not raise limits
        limits["nproc"] = _at_most(resource.RLIMIT_NPROC, MAX_PIDS)
    return limits


def _at_most(kind: int, limit: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return limit if hard == resource.RLIM_INFINITY else min(limit, hard)
