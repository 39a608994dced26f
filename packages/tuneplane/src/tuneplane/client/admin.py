"""The calls of `/api/v1/admin`, for administrators: users, quotas, policies, approvals."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any, NotRequired, TypedDict
from urllib.parse import quote

from tuneplane.client import types
from tuneplane.client.http import Console


class User(TypedDict):
    """`disabled_at`: since when they cannot sign in."""

    username: str
    admin: bool
    created_at: NotRequired[str]
    disabled_at: NotRequired[str | None]


class UserList(TypedDict):
    items: list[User]


class QuotaList(TypedDict):
    items: list[types.Quota]


class Policy(TypedDict):
    name: str
    value: dict[str, Any]
    version: int
    updated_at: NotRequired[str | None]
    updated_by: NotRequired[str | None]


class PolicyList(TypedDict):
    items: list[Policy]


class Retention(TypedDict):
    """`value`: logs_days, metrics_days, samples_days, total_gb; None keeps for ever, or any amount."""

    value: dict[str, Any]
    used_gb: float
    version: int
    updated_at: NotRequired[str | None]
    updated_by: NotRequired[str | None]


class NodeProblem(TypedDict):
    code: str
    text: str
    hint: NotRequired[str]
    detail: NotRequired[str]


class NodeCard(TypedDict):
    index: int
    series: str
    product: NotRequired[str]
    memory_gb: NotRequired[float | None]
    simulated: NotRequired[bool]
    job_id: NotRequired[str | None]


class NodeRun(TypedDict):
    job_id: str
    attempt: int
    gpus: list[int]
    cpus: NotRequired[float]
    memory_gb: NotRequired[float]
    since: NotRequired[str]


class NodeFence(TypedDict):
    job_id: str
    attempt: int
    since: NotRequired[str]


class NodeFinding(TypedDict):
    code: str
    level: str
    text: str
    hint: NotRequired[str]


class LeftJob(TypedDict):
    """A job on a node that was launched under another node id, as of before its state was lost."""

    job_id: str
    attempt: int
    node_id: NotRequired[str]
    running: NotRequired[bool]
    gpus: NotRequired[list[int] | None]


class Node(TypedDict):
    """A machine of the executor `agent`. `state`: what administrators want of it; `health`: how it is; `runs`: who holds what there."""

    name: str
    state: str
    health: str
    node_id: NotRequired[str]
    address: NotRequired[str]
    version: NotRequired[str]
    state_by: NotRequired[str]
    state_at: NotRequired[str]
    problem: NotRequired[NodeProblem | None]
    placeable: NotRequired[bool]
    last_heard: NotRequired[str]
    joined_at: NotRequired[str]
    proved_at: NotRequired[str | None]
    clock_offset: NotRequired[float | None]
    storage_root: NotRequired[str]
    runtime: NotRequired[str]
    cpus: NotRequired[int]
    memory_gb: NotRequired[float]
    cards: NotRequired[list[NodeCard]]
    runs: NotRequired[list[NodeRun]]
    fences: NotRequired[list[NodeFence]]
    left_jobs: NotRequired[list[LeftJob]]
    findings: NotRequired[list[NodeFinding]]


class RefusedNode(TypedDict):
    """A machine that uses a name of another one."""

    name: str
    node_id: str
    address: str
    problem: NodeProblem
    heard_at: NotRequired[str]


class NodeList(TypedDict):
    items: list[Node]
    refused: NotRequired[list[RefusedNode]]


class RuntimeImage(TypedDict):
    """`present`: whether the path is there on the console's machine; None where nobody can tell."""

    form: str
    image: str
    digest: NotRequired[str | None]
    architecture: NotRequired[str | None]
    capabilities: NotRequired[list[str]]
    present: NotRequired[bool | None]
    line: NotRequired[int]


class Runtime(TypedDict):
    """`usable`: whether the console can run it; `image` and `source` say what and from where, else `why` and `hint`."""

    runtime_id: str
    usable: bool
    methods: NotRequired[list[str]]
    images: NotRequired[list[RuntimeImage]]
    image: NotRequired[str | None]
    source: NotRequired[str | None]
    why: NotRequired[str]
    hint: NotRequired[str]


class RegistryProblem(TypedDict):
    where: str
    text: str
    hint: NotRequired[str]


class RuntimeList(TypedDict):
    """`form`: what the console's executor runs. `problems`: why the registry file as it is now does not count."""

    items: list[Runtime]
    form: str
    executor: NotRequired[str]
    file: NotRequired[str | None]
    problems: NotRequired[list[RegistryProblem]]


class Administration(Console):
    """A console as its administrators may use it. Changes of quotas and policies say which version they are of: the console
    answers `ProblemError` with the code `conflict` when somebody else changed it meanwhile.
    """

    # --- users ----------------------------------------------------------------------------------------------------

    def users(self) -> list[User]:
        answer: UserList = self._get("/admin/users", UserList)
        return answer["items"]

    def add_user(self, username: str, password: str, *, admin: bool) -> User:
        return self._post("/admin/users", {"username": username, "password": password, "admin": admin}, User)

    def set_disabled(self, username: str, *, disabled: bool) -> User:
        verb = "disable" if disabled else "enable"
        return self._call("POST", f"/admin/users/{_part(username)}/{verb}", User, repeat=True)

    # --- recipes of the organisation ------------------------------------------------------------------------------

    def publish_recipes(self, files: Mapping[str, bytes]) -> types.Catalog:
        """Replace what was published (path -> content), all of it or nothing; the catalog as it is then."""
        body = {"files": {name: b64encode(content).decode() for name, content in files.items()}}
        return self._call("PUT", "/organisation/recipes", types.Catalog, json=body, repeat=True)

    # --- quotas ---------------------------------------------------------------------------------------------------

    def quotas(self) -> list[types.Quota]:
        """Both defaults, then everyone with a value of their own."""
        answer: QuotaList = self._get("/admin/quotas", QuotaList)
        return answer["items"]

    def quota(self, path: str) -> types.QuotaReport:
        """`path`: `users/<name>`, `projects/<owner>/<name>`, `defaults/user` or `defaults/project`."""
        return self._get(f"/admin/quotas/{_parts(path)}", types.QuotaReport)

    def set_quota(self, path: str, own: dict[str, Any], version: int) -> types.Quota:
        """Replace the fields that it has of its own; none gives it back to the default."""
        body = {"limits": own, "version": version}
        return self._call("PUT", f"/admin/quotas/{_parts(path)}", types.Quota, json=body)

    # --- policies -------------------------------------------------------------------------------------------------

    def policies(self) -> list[Policy]:
        answer: PolicyList = self._get("/admin/policies", PolicyList)
        return answer["items"]

    def policy(self, name: str) -> Policy:
        return self._get(f"/admin/policies/{_part(name)}", Policy)

    def set_policy(self, name: str, value: dict[str, Any], version: int) -> Policy:
        body = {"value": value, "version": version}
        return self._call("PUT", f"/admin/policies/{_part(name)}", Policy, json=body)

    # --- retention ------------------------------------------------------------------------------------------------

    def retention(self, project: str) -> Retention:
        """`project`: `<owner>/<name>`. Owners may ask for, and change, their own."""
        return self._get(f"/projects/{_parts(project)}/retention", Retention)

    def set_retention(self, project: str, value: dict[str, Any], version: int) -> Retention:
        """Replace all fields; one that is left out keeps for ever."""
        body = {"value": value, "version": version}
        return self._call("PUT", f"/projects/{_parts(project)}/retention", Retention, json=body)

    # --- nodes ----------------------------------------------------------------------------------------------------

    def nodes(self) -> NodeList:
        return self._get("/nodes", NodeList)

    def node(self, name: str) -> Node:
        return self._get(f"/nodes/{_part(name)}", Node)

    def change_node(self, name: str, verb: str) -> Node:
        """`verb`: cordon, uncordon or drain."""
        return self._call("POST", f"/nodes/{_part(name)}/{verb}", Node, repeat=True)

    def remove_node(self, name: str, *, force: bool) -> Node:
        """The problem `conflict` while runs hold something there, unless `force`."""
        return self._call(
            "DELETE", f"/nodes/{_part(name)}", Node, params={"force": "true"} if force else None, repeat=True
        )

    def end_left_job(self, name: str, job: str, attempt: int) -> Node:
        """The problem `conflict` while the run holds something by the ledger."""
        path = f"/nodes/{_part(name)}/left-jobs/{_part(job)}/end"
        return self._call("POST", path, Node, params={"attempt": attempt}, repeat=True)

    # --- runtimes -------------------------------------------------------------------------------------------------

    def runtimes(self) -> RuntimeList:
        return self._get("/runtimes", RuntimeList)

    # --- approvals ------------------------------------------------------------------------------------------------

    def iterate_approvals(self) -> Iterator[types.Job]:
        """Jobs that wait for an administrator, the oldest first."""
        return self._pages(lambda cursor: self._get("/admin/approvals", types.JobPage, {"cursor": cursor}))


def _part(name: str) -> str:
    return quote(name, safe="")


def _parts(path: str) -> str:
    return "/".join(_part(part) for part in path.split("/"))
