"""Every environment variable of the node in one typed class; the console's settings of the same names mean the same."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, cast
from urllib.parse import urlsplit

from tuneplane_node.engine.engine import PULL_SECONDS, Engine
from tuneplane_node.engine.problems import NodeError
from tuneplane_node.engine.selection import RuntimeChoice

DEFAULT_PORT = 8643
IMAGE_LIMIT_GB = 200.0
GB = 1000**3
LogFormat = Literal["text", "json"]
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z", re.ASCII)


@dataclass(frozen=True)
class NodeSettings:
    """`container_socket`: API socket of Docker or Podman, a path or `unix://` URL; empty means the usual places.

    What follows `pull_seconds` is for `serve` only. `address`: the URL at which the console is to call this node; empty: found
    from the route to the console. `image_limit_gb`: above it, unused images go; 0 keeps all.
    """

    state_root: Path
    runtime: str = "auto"
    container_socket: str = ""
    container_mounts: str = ""
    container_user: str = ""
    simulated_gpus: str = ""
    pull_seconds: float = PULL_SECONDS
    host: str = "0.0.0.0"  # noqa: S104 - the console is on another machine; the token guards it
    port: int = DEFAULT_PORT
    name: str = ""
    address: str = ""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    ca_file: Path | None = None
    console_url: str = ""
    storage_root: Path | None = None
    image_limit_gb: float = IMAGE_LIMIT_GB
    log_format: LogFormat = "text"

    @classmethod
    def load(cls, env: Mapping[str, str] | None = None) -> Self:
        """Raises NodeError `setting-invalid`."""
        source = os.environ if env is None else env
        base = Path(source.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
        return cls(
            state_root=Path(source.get("TUNEPLANE_NODE_STATE") or base / "tuneplane/node").expanduser().absolute(),
            runtime=source.get("TUNEPLANE_RUNTIME") or "auto",
            container_socket=source.get("TUNEPLANE_CONTAINER_SOCKET", ""),
            container_mounts=source.get("TUNEPLANE_CONTAINER_MOUNTS", ""),
            container_user=source.get("TUNEPLANE_CONTAINER_USER", ""),
            simulated_gpus=source.get("TUNEPLANE_SIMULATED_GPUS", ""),
            pull_seconds=_number(source, "TUNEPLANE_IMAGE_PULL_TIMEOUT", PULL_SECONDS, least=10),
            host=source.get("TUNEPLANE_NODE_HOST") or cls.host,
            port=_port(source),
            name=_name(source),
            address=_url(source, "TUNEPLANE_NODE_ADDRESS", "http://10.0.0.2:8643"),
            tls_cert=_file(source, "TUNEPLANE_NODE_TLS_CERT"),
            tls_key=_file(source, "TUNEPLANE_NODE_TLS_KEY"),
            ca_file=_file(source, "TUNEPLANE_NODE_CA_FILE"),
            console_url=_url(source, "TUNEPLANE_CONSOLE_URL", "http://10.0.0.1:8642"),
            storage_root=_storage_root(source),
            image_limit_gb=_number(source, "TUNEPLANE_NODE_IMAGE_LIMIT_GB", IMAGE_LIMIT_GB),
            log_format=_log_format(source),
        )

    @property
    def scheme(self) -> str:
        return "https" if self.tls_cert is not None else "http"

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
            pull_seconds=self.pull_seconds,
        )


def _invalid(setting: str, value: str, form: str) -> NodeError:
    return NodeError("setting-invalid", setting=setting, value=value[:200], form=form)


def _number(source: Mapping[str, str], setting: str, default: float, least: float = 0.0) -> float:
    text = source.get(setting, "").strip()
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not least <= number < 1e9:
        raise _invalid(setting, text, f"{default:g}")
    return number


def _port(source: Mapping[str, str]) -> int:
    text = source.get("TUNEPLANE_NODE_PORT", "").strip()
    if not text:
        return DEFAULT_PORT
    if not (text.isascii() and text.isdecimal() and 0 <= int(text[:9]) <= 65535):
        raise _invalid("TUNEPLANE_NODE_PORT", text, str(DEFAULT_PORT))
    return int(text)


def _name(source: Mapping[str, str]) -> str:
    """The host name without its domain, unless another is set."""
    given = source.get("TUNEPLANE_NODE_NAME", "").strip()
    name = given or socket.gethostname().partition(".")[0]
    if _NAME.match(name) is None:
        raise _invalid("TUNEPLANE_NODE_NAME", name, "gpu-box-1")
    return name


def _url(source: Mapping[str, str], setting: str, form: str) -> str:
    text = source.get(setting, "").strip().rstrip("/")
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        bare = not (parts.username or parts.password or parts.query or parts.fragment)
    except ValueError:
        good = bare = False
    if not (good and bare):
        # What stands before an @ may be a secret.
        raise _invalid(setting, text.rpartition("@")[2], form)
    return text


def _file(source: Mapping[str, str], setting: str) -> Path | None:
    text = source.get(setting, "")
    return Path(text).expanduser().absolute() if text else None


def _storage_root(source: Mapping[str, str]) -> Path | None:
    text = source.get("TUNEPLANE_STORAGE_ROOT", "")
    if not text:
        return None
    path = Path(text).expanduser()
    if not path.is_absolute() or ".." in path.parts:
        raise _invalid("TUNEPLANE_STORAGE_ROOT", text, "/data/tuneplane")
    return path


def _log_format(source: Mapping[str, str]) -> LogFormat:
    text = source.get("TUNEPLANE_NODE_LOG_FORMAT") or "text"
    if text == "json":
        return "json"
    if text == "text":
        return "text"
    raise _invalid("TUNEPLANE_NODE_LOG_FORMAT", text, "text|json")
