"""What an engine says about a container, in our words. Pure."""

from __future__ import annotations

import re
import signal
from datetime import UTC, datetime
from typing import Any

from tuneplane_node.engine.problems import NodeError
from tuneplane_node.engine.requests import Observed, State, signal_of

_STATES: dict[str, State] = {
    "created": "created",
    "configured": "created",
    "initialized": "created",
    "running": "running",
    "paused": "running",
    "restarting": "running",
    "stopping": "running",
    "exited": "exited",
    "stopped": "exited",
    "dead": "exited",
    "removing": "exited",
}
# containerd's UnknownExitStatus. A dockerd that was killed when it had collected an end and before it wrote it down says so too.
_DOCKER_UNKNOWN = 255
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)\Z")


def read_state(inspected: dict[str, Any], podman: bool) -> Observed:
    """`inspected` is the answer of `GET /containers/{name}/json`."""
    state = inspected.get("State") or {}
    status = str(state.get("Status", ""))
    known = _STATES.get(status)
    if known is None:
        return Observed("unknown", detail=f"the engine calls its state {status!r}")
    started = parse_time(state.get("StartedAt"))
    if known == "created":
        return Observed("created", detail=str(state.get("Error") or ""))
    if known == "running":
        return Observed("running", started_at=started, detail="" if status == "running" else status)
    finished = parse_time(state.get("FinishedAt"))
    if started is not None and finished is not None:
        finished = max(started, finished)  # seen with Docker 20: a command that fails at once ends before it starts
    code: int | None = int(state.get("ExitCode", 0))
    detail = str(state.get("Error") or "")
    if not podman and code == _DOCKER_UNKNOWN:
        # Who did end with 255 has left an outcome that says so.
        code, detail = None, detail or "it ended with 255, or Docker did not live to record how it ended"
    oom: bool | None = bool(state.get("OOMKilled"))
    if podman and not oom and code == 128 + signal.SIGKILL:
        oom = None  # Podman 4 always says no
    return Observed(
        "exited",
        exit_code=code,
        signal=signal_of(code),
        oom_killed=oom,
        started_at=started,
        finished_at=finished,
        detail=detail,
    )


def is_paused(inspected: dict[str, Any]) -> bool:
    return (inspected.get("State") or {}).get("Status") == "paused"


def is_created(inspected: dict[str, Any]) -> bool:
    """Never started, as far as the engine knows."""
    return _STATES.get(str((inspected.get("State") or {}).get("Status", ""))) == "created"


def parse_time(text: object) -> datetime | None:
    """RFC 3339 with nanoseconds; the engines' zero time (year 1) is None."""
    match = _TIME.match(str(text or ""))
    if match is None or match[1].startswith("0001"):
        return None
    zone = "+00:00" if match[3] == "Z" else match[3]
    return datetime.fromisoformat(f"{match[1]}{(match[2] or '')[:7]}{zone}").astimezone(UTC)


def start_error(message: str, runtime: str, command: str, workdir: str | None) -> NodeError:
    """Why create or start was refused, from the engine's words (seen with Docker 20 to 28 and Podman 4)."""
    text = message.lower()
    if "executable file not found" in text or ("exec:" in text and "no such file" in text):
        return NodeError("command-not-found", message, command=command)
    if (
        "device driver" in text
        or "cdi device" in text
        or "nvidia-container" in text
        or "unknown runtime specified nvidia" in text
    ):
        return NodeError("gpu-unsupported", message, runtime=runtime)
    if "workdir" in text and "does not exist" in text:
        return NodeError("workdir-missing", message, path=workdir)
    if "bind source path does not exist" in text or text.startswith("statfs"):
        return NodeError("mount-missing", message)
    return NodeError("engine-refused", message, runtime=runtime)


def is_no_such_container(status: int, message: str) -> bool:
    """Proof of absence: a bare 404 could come from anything that sits before the engine."""
    return status == 404 and "no such container" in message.lower()


def is_no_such_image(message: str) -> bool:
    text = message.lower()
    return "no such image" in text or "image not known" in text


def is_name_in_use(message: str) -> bool:
    """Docker answers a conflict 409; Podman 4 answers 500, so the words decide."""
    text = message.lower()
    return "already in use" in text or "name is in use" in text


def is_started_before(message: str) -> bool:
    """Start was refused because containerd or the runtime still has an earlier start of the same container (Docker 20.10)."""
    text = message.lower()
    return "id already in use" in text or ("shim" in text and "exists" in text) or "task already exists" in text


def is_init_missing(message: str) -> bool:
    text = message.lower()
    return "container-init binary" in text or "catatonit" in text or "init binary" in text


def demultiplex(data: bytes) -> bytes:
    """Plain output from the engine's log frames: a byte of stream, three of zero, four of length, then the text.

    A last frame that is cut off is used as far as it goes.
    """
    pieces, position = [], 0
    while position + 8 <= len(data):
        length = int.from_bytes(data[position + 4 : position + 8], "big")
        pieces.append(data[position + 8 : position + 8 + length])
        position += 8 + length
    return b"".join(pieces)
