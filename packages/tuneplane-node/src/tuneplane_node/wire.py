"""What console and node say to each other: plain frozen values and their JSON.

Versions that are one minor apart have to understand each other. So fields are only added, always with a default, and a reader
ignores the ones it does not know. The words of a `Literal` belong to the API's version, which stands in the path. The engine's
own values (LaunchRequest, Observed, Inventory, …) cross as they are, by `to_json` and `from_json`.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

import msgspec

from tuneplane_node.engine.inventory import Inventory
from tuneplane_node.engine.problems import PROBLEMS, Blame, Finding, Level, NodeError, finding, plain_values
from tuneplane_node.engine.requests import LaunchRequest, Observed

API_VERSIONS = (1,)
NODE_PATH = "/node/v1"
ANNOUNCE_PATH = "/api/v1/nodes/announce"
# Every answer of a node carries its version here: that is how a caller knows that it is one, and which.
VERSION_HEADER = "TunePlane-Node"
# A call says here whose it is: whoever else answers at the address must neither act on it nor speak for that node's jobs.
ID_HEADER = "TunePlane-Node-Id"

NodeState = Literal["ready", "cordoned", "draining", "refused", "removed"]


class WireError(ValueError):
    """JSON of another shape; the text says where and how."""


def to_json(value: object) -> Any:
    """Dicts, lists, strings, numbers. Times become ISO 8601."""
    return msgspec.to_builtins(value, str_keys=True)


def from_json[T](shape: type[T], value: object) -> T:
    """Raises WireError, and what the shape itself raises (`LaunchRequest`: NodeError `request-invalid`)."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as problem:
        raise WireError(f"{shape.__name__}: {problem}") from problem


class Shape:
    """A value of the wire."""

    def to_json(self) -> dict[str, Any]:
        made: dict[str, Any] = to_json(self)
        return made

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Raises WireError."""
        return from_json(cls, value)


@dataclass(frozen=True)
class NodeProblem(Shape):
    """A problem of the engine's table on its way. `text` and `hint` are what the sender would say: a reader whose table lacks
    the code shows them. `retry` and `blame` are the sender's as well."""

    code: str
    values: Mapping[str, Any] = field(default_factory=dict)
    detail: str = ""
    text: str = ""
    hint: str = ""
    retry: bool = False
    blame: str = "infra"
    level: str = "error"

    @classmethod
    def of(cls, error: NodeError) -> Self:
        return cls(
            error.code,
            plain_values(error.values),
            error.detail,
            error.text(),
            error.hint(),
            error.retry,
            error.blame,
            error.problem.level,
        )

    @classmethod
    def of_finding(cls, found: Finding) -> Self:
        problem = PROBLEMS[found.code]
        return cls(
            found.code, found.values, found.detail, found.text, found.hint, problem.retry, problem.blame, found.level
        )

    def error(self) -> NodeError:
        """The error in the words of this side's table, when that knows it."""
        if self.code in PROBLEMS:
            try:
                return NodeError(self.code, self.detail, **self.values)
            except (KeyError, IndexError, ValueError, TypeError):
                pass  # the other version's sentence takes other values: its own text is used
        unknown = NodeError(
            "node-says", self.detail, node_code=self.code, said=self.text or self.code, advice=self.hint
        )
        unknown.problem = replace(unknown.problem, retry=self.retry, blame=_blame(self.blame), level=_level(self.level))
        return unknown

    def finding(self) -> Finding:
        """In the current language."""
        return self.error().finding()


@dataclass(frozen=True)
class NodeHello(Shape):
    """Who a node is. `storage_root` is its path there. `time`: Unix seconds of its clock now; `started_at`: of the daemon.
    `image_form`: oci or environment, as in the executor port. `boot_id` changes when the machine is started again. `ticket`: for a
    launch that begins now; empty from a node of before."""

    node_id: str
    name: str
    version: str
    storage_root: str
    api: tuple[int, ...] = API_VERSIONS
    runtime: str = ""
    isolates: bool = True
    image_form: str = "oci"
    simulated: bool = False
    time: float = 0.0
    boot_id: str = ""
    started_at: float = 0.0
    ticket: str = ""


@dataclass(frozen=True)
class ContainerSeen(Shape):
    """A container of the node's own, and its state at that moment. `handle` is a `RuntimeHandle` as text."""

    handle: str
    labels: Mapping[str, str]
    observed: Observed


@dataclass(frozen=True)
class StrangerSeen(Shape):
    """A job on the machine that was launched under another node id, `instance`. `gpus`: None when its cards cannot be told."""

    handle: str
    job: str
    attempt: int
    instance: str
    running: bool = True
    gpus: tuple[int, ...] | None = ()


@dataclass(frozen=True)
class Announcement(Shape):
    """A node to the console. `address`: the URL at which the console is to call it; empty when it cannot tell."""

    hello: NodeHello
    address: str = ""
    inventory: Inventory | None = None
    findings: tuple[NodeProblem, ...] = ()
    containers: int = 0
    strangers: tuple[StrangerSeen, ...] = ()


@dataclass(frozen=True)
class AnswerProblem(Shape):
    """What the console has against a node, in the language that the node asked for."""

    code: str
    text: str = ""
    hint: str = ""


@dataclass(frozen=True)
class AnnounceAnswer(Shape):
    """`node`: the name under which the console has it. `every_seconds`: when to be heard of again. `pinned_images`: those that
    the node's cleaning must leave alone."""

    node: str
    state: NodeState = "ready"
    problem: AnswerProblem | None = None
    every_seconds: float = 15.0
    pinned_images: tuple[str, ...] = ()


@dataclass(frozen=True)
class StorageChallenge(Shape):
    """`console_file` (below `root`) holds `nonce`. All paths are absolute."""

    root: str
    console_file: str
    nonce: str


@dataclass(frozen=True)
class StorageProof(Shape):
    """`read`: what the node found in the console's file, None when it could not read it. `node_file` holds `node_nonce`: the
    console has to find it. The rest says what the node has there: file system, device, mount source. `problem`: the code of
    what the node itself has against the directory, empty when nothing."""

    read: str | None = None
    node_file: str = ""
    node_nonce: str = ""
    root: str = ""
    device: str = ""
    fs_type: str = ""
    source: str = ""
    hostname: str = field(default_factory=socket.gethostname)
    writable: bool = False
    detail: str = ""
    problem: str = ""


@dataclass(frozen=True)
class MainPlace(Shape):
    """Where the first machine of a job listens: the addresses it has, and the port reserved there."""

    ips: tuple[str, ...]
    port: int


@dataclass(frozen=True)
class PreflightRequest(Shape):
    """What a member of a job has to fulfil before its trainer starts. `files`: name in the capsule -> SHA-256 (hex).
    `console_time`: Unix seconds. `main` is None on the first machine itself and for jobs of one machine."""

    job: str
    attempt: int
    capsule_dir: str
    capsule_sha256: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    ingest_url: str = ""
    gpus: tuple[int, ...] = ()
    console_time: float = 0.0
    min_free_bytes: int = 0
    main: MainPlace | None = None


@dataclass(frozen=True)
class MachineAddress(Shape):
    """One address of a machine, without its mask, and the interface that has it."""

    address: str
    interface: str


@dataclass(frozen=True)
class PreflightReport(Shape):
    """`ips`: addresses at which other machines may reach this one, best first. `clock_offset`: the node's clock minus the
    console's, in seconds. `reached`: the first of the main machine's addresses that answered; None when none did or none
    was asked for. `interface`: the one towards it."""

    problems: tuple[NodeProblem, ...] = ()
    ips: tuple[MachineAddress, ...] = ()
    clock_offset: float = 0.0
    reached: str | None = None
    interface: str = ""


@dataclass(frozen=True)
class LaunchCall(Shape):
    """`digests`: absolute path of a file -> its SHA-256 (hex), checked before anything starts. `operation`: made by the caller,
    the same in every repetition of one call. `ticket`: what the node gave when the launch began; it is not begun any more when its
    attempt was cleaned up since. `asked`: Unix seconds of the caller's clock then, by which nodes of before decide that."""

    request: LaunchRequest
    digests: Mapping[str, str] = field(default_factory=dict)
    operation: str = ""
    asked: float = 0.0
    ticket: str = ""


@dataclass(frozen=True)
class LaunchAnswer(Shape):
    """Not `done`: ask again with the same call. What went wrong comes as a problem in place of this."""

    done: bool
    handle: str = ""


@dataclass(frozen=True)
class StopCall(Shape):
    grace_seconds: float
    operation: str = ""


@dataclass(frozen=True)
class StopAnswer(Shape):
    done: bool


@dataclass(frozen=True)
class CleanupCall(Shape):
    """A launch that began before this and comes later is not begun any more. `asked` as in `LaunchCall`."""

    asked: float = 0.0


@dataclass(frozen=True)
class AttemptCleanupCall(Shape):
    """Everything of one attempt, also what a launch of which nobody saw the end has made. `instance`: the node id under which it was
    launched, where that is another one than the node has now."""

    job: str
    attempt: int
    asked: float = 0.0
    instance: str = ""


@dataclass(frozen=True)
class CleanupAnswer(Shape):
    gone: bool


@dataclass(frozen=True)
class PortCall(Shape):
    job: str
    attempt: int


@dataclass(frozen=True)
class PortAnswer(Shape):
    port: int = 0


def known_finding(found: Finding) -> Finding:
    """A finding that came over the wire, said anew in the current language when this side's table has it."""
    if found.code in PROBLEMS:
        try:
            return finding(found.code, found.detail, **found.values)
        except (KeyError, IndexError, ValueError, TypeError):
            pass  # the other version's sentence takes other values: its own text stays
    return found


def _blame(word: str) -> Blame:
    return next((known for known in get_args(Blame) if known == word), "infra")


def _level(word: str) -> Level:
    return next((known for known in get_args(Level) if known == word), "error")
