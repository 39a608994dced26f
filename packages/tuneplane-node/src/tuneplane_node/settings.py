"""Every environment variable of the node in one typed class; the console's settings of the same names mean the same."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

from tuneplane_node.engine.engine import Engine
from tuneplane_node.engine.selection import RuntimeChoice


@dataclass(frozen=True)
class NodeSettings:
    """`container_socket`: API socket of Docker or Podman, a path or `unix://` URL; empty means the usual places."""

    state_root: Path
    runtime: str = "auto"
    container_socket: str = ""
    container_mounts: str = ""
    container_user: str = ""
    simulated_gpus: str = ""

    @classmethod
    def load(cls, env: Mapping[str, str] | None = None) -> Self:
        source = os.environ if env is None else env
        base = Path(source.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
        return cls(
            state_root=Path(source.get("TUNEPLANE_NODE_STATE") or base / "tuneplane/node").expanduser().absolute(),
            runtime=source.get("TUNEPLANE_RUNTIME") or "auto",
            container_socket=source.get("TUNEPLANE_CONTAINER_SOCKET", ""),
            container_mounts=source.get("TUNEPLANE_CONTAINER_MOUNTS", ""),
            container_user=source.get("TUNEPLANE_CONTAINER_USER", ""),
            simulated_gpus=source.get("TUNEPLANE_SIMULATED_GPUS", ""),
        )

    def engine(self, instance_id: str) -> Engine:
        """Raises NodeError when a setting makes no sense."""
        return Engine(
            instance_id,
            self.state_root,
            runtime=cast(RuntimeChoice, self.runtime),  # checked by the engine, which names the setting
            docker_host=self.container_socket,
            podman_host=self.container_socket,
            extra_mounts=self.container_mounts,
            container_user=self.container_user,
            simulated_gpus=self.simulated_gpus,
        )
