"""An old node with a new console, and the reverse: one minor apart they work, further apart both are named."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.tuneplane_node.bench import Bench, until_told
from tests.tuneplane_node.daemon.served import Daemon, ServedNode
from tuneplane_node import wire
from tuneplane_node.client import NodeUnreachableError
from tuneplane_node.engine import LABEL_JOB, Inventory, MachineSample, NodeError, Observed
from tuneplane_node.engine.problems import Finding

ANSWERS: dict[str, Any] = {
    "hello": wire.NodeHello,
    "inventory": Inventory,
    "check": list[Finding],
    "sample": MachineSample,
    "containers": list[wire.ContainerSeen],
    "launch": wire.LaunchAnswer,
    "stop": wire.StopAnswer,
    "cleanup": wire.CleanupAnswer,
    "storage": wire.StorageProof,
    "preflight": wire.PreflightReport,
    "reserve": wire.PortAnswer,
}
CALLS: dict[str, Any] = {
    "launch": wire.LaunchCall,
    "stop": wire.StopCall,
    "cleanup": wire.CleanupCall,
    "storage": wire.StorageChallenge,
    "preflight": wire.PreflightRequest,
    "reserve": wire.PortCall,
}
type Change = Callable[[Any, Any], Any]


def newer(sent: Any, value: Any) -> Any:
    """Every object has a field that this version does not know."""
    if dataclasses.is_dataclass(value):
        return {name: newer(sent[name], getattr(value, name)) for name in sent} | {"invented_later": {"deep": [None]}}
    if isinstance(value, (list, tuple)):
        return [newer(each, part) for each, part in zip(sent, value, strict=True)]
    return sent


def older(sent: Any, value: Any) -> Any:
    """No object has a field that stands at its default: that is what those look like which did not exist yet."""
    if isinstance(value, (list, tuple)):
        return [older(each, part) for each, part in zip(sent, value, strict=True)]
    if not dataclasses.is_dataclass(value):
        return sent
    kept = {}
    for field in dataclasses.fields(value):
        made = None if field.default_factory is dataclasses.MISSING else field.default_factory()
        default = made if field.default is dataclasses.MISSING else field.default
        has_one = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        if not (has_one and getattr(value, field.name) == default):
            kept[field.name] = older(sent[field.name], getattr(value, field.name))
    return kept


class OtherVersion:
    """Rewrites what goes in and what comes out, as a node of another version would read and write it."""

    def __init__(self, app: ASGIApp, change: Change) -> None:
        self._app, self._change = app, change
        self.changed = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        what = scope["path"].rpartition("/")[2]
        head: list[Message] = []

        async def received() -> Message:
            message = await receive()
            while message.get("more_body"):
                more = await receive()
                message = {**more, "body": message["body"] + more["body"]}
            if message.get("body"):
                message["body"] = self._rewritten(message["body"], CALLS.get(what))
            return message

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                head.append(message)
                return
            shape = ANSWERS.get(what) or (Observed if scope["method"] == "GET" else None)
            body = self._rewritten(message.get("body", b""), shape) if head[0]["status"] == 200 else message["body"]
            others = [(name, value) for name, value in head[0]["headers"] if name != b"content-length"]
            await send({**head[0], "headers": [*others, (b"content-length", str(len(body)).encode())]})
            await send({**message, "body": body})

        await self._app(scope, received, sent)

    def _rewritten(self, body: bytes, shape: Any) -> bytes:
        if shape is None:
            return body
        self.changed += 1
        sent = json.loads(body)
        return json.dumps(self._change(sent, wire.from_json(shape, sent))).encode()


@pytest.mark.parametrize("change", [older, newer])
async def test_a_node_of_the_minor_before_or_after_does_all_its_work(
    make_served: Callable[..., Awaitable[ServedNode]], process_bench: Bench, change: Change
) -> None:
    made: list[OtherVersion] = []

    def around(app: ASGIApp) -> ASGIApp:
        made.append(OtherVersion(app, change))
        return made[0]

    served = await make_served(around=around, version="0.0.9" if change is older else "0.2.0")
    client = served.client()
    assert (await client.hello()).node_id == served.node.node_id
    assert (await client.inventory()).cpus > 0
    assert [finding.code for finding in await client.check()] == ["process-isolates-nothing"]
    handle = await client.launch(process_bench.request(process_bench.waiting_job(7)))
    await process_bench.exists("ready")
    assert (await client.observe(handle)).state == "running"
    (seen,) = await client.containers()
    assert (seen.handle, seen.labels[LABEL_JOB]) == (str(handle), "0123456789abcdef")
    assert len((await client.sample()).jobs) == 1
    await client.stop(handle, 0.1)
    ended = await until_told(lambda: client.observe(handle), lambda found: found.state == "exited")
    assert ended.exit_code is not None
    assert await client.cleanup(handle)
    root = str(served.storage_root)
    proof = await client.prove_storage(wire.StorageChallenge(root, f"{root}/.tuneplane-identity/console-1", "1"))
    assert proof.read is None
    report = await client.preflight(wire.PreflightRequest("j", 1, f"{root}/c", console_time=time.time()))
    assert [problem.code for problem in report.problems if problem.code.startswith("capsule")] == []
    assert await client.reserve_port("j", 1) > 0
    assert made[0].changed > 15


async def test_a_refusal_that_only_the_newer_side_knows_is_told_in_its_words(
    make_served: Callable[..., Awaitable[ServedNode]], process_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = await make_served()
    newest = wire.NodeProblem("gpu-melted", text="GPU 3 has melted.", hint="Buy one.", retry=True)
    monkeypatch.setattr(wire.NodeProblem, "of", lambda _error: newest)
    with pytest.raises(NodeError) as refusal:
        await served.client().launch(process_bench.request("", command=["no-such-command"]))
    assert (refusal.value.code, refusal.value.retry) == ("node-says", True)
    assert "GPU 3 has melted." in refusal.value.text()


async def test_a_call_that_an_older_node_lacks_is_a_matter_of_versions(served: ServedNode) -> None:
    with pytest.raises(NodeUnreachableError) as problem:
        await served.client()._transport.json("POST", f"{wire.NODE_PATH}/invented/later", body={})
    assert problem.value.code == "node-version"


@pytest.mark.services
@pytest.mark.parametrize(
    ("node", "console", "fits"),
    [
        ("0.0.9", "0.1.0", True),
        ("0.2.0", "0.1.0", True),
        ("0.2.0rc1", "0.1.7", True),
        ("0.3.0", "0.1.0", False),
        ("0.1.0", "0.2.4", True),
        ("0.1.0", "0.3.0", False),
        ("1.1.0", "0.1.0", False),
    ],
)
async def test_a_real_daemon_of_another_version(
    daemon_process: Callable[..., Daemon], node: str, console: str, fits: bool
) -> None:
    daemon = await daemon_process(version=node).start()
    client = daemon.client(version=console)
    if fits:
        assert (await client.hello()).version == node
        assert await client.containers() == []
    else:
        with pytest.raises(NodeUnreachableError) as problem:
            await client.containers()
        assert problem.value.code == "node-version"
        assert node in problem.value.text()
        assert console in problem.value.text()
    await client.close()
