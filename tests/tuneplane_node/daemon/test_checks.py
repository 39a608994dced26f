"""`tuneplane-node check` on a machine that is to be a node: real files, ports, mounts, and answers over real connections."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.services.ports import free_port
from tests.tuneplane_node.daemon.served import ServedNode
from tests.tuneplane_node.test_inventory import install_nvidia_smi
from tuneplane.i18n import using_language
from tuneplane_node import cli
from tuneplane_node.daemon import checks
from tuneplane_node.daemon.checks import check_limits, check_machine
from tuneplane_node.engine.inventory import take_inventory
from tuneplane_node.engine.problems import Finding
from tuneplane_node.settings import NodeSettings
from tuneplane_node.versions import VERSION

TOKEN = "a-token-of-sixteen-characters-and-more"
REFUSAL = json.dumps({"code": "token-invalid", "detail": "the agent token is not the console's", "hint": "same value"})


@pytest.fixture
def settings(tmp_path: Path) -> NodeSettings:
    (tmp_path / "shared").mkdir()
    return NodeSettings(
        tmp_path / "state",
        runtime="process",
        host="127.0.0.1",
        port=free_port(),
        storage_root=tmp_path / "shared",
    )


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """With a token in a file of the right mode."""
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    return {"TUNEPLANE_AGENT_TOKEN_FILE": str(file)}


@pytest.fixture
async def refusing_console() -> AsyncIterator[tuple[str, list[bytes]]]:
    """A console that refuses every announcement for its token; its URL, and what it was asked."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        status, body = ("200 OK", server()) if asked[-1].startswith(b"GET") else ("401 Unauthorized", REFUSAL)
        header = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
        writer.write(f"{header}Date: {formatdate(usegmt=True)}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", asked
    listening.close()
    await listening.wait_closed()


@pytest.fixture
async def console() -> AsyncIterator[Callable[[str, str], str]]:
    """Something at an address that answers every request with a body and headers; gives its URL."""
    said: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said[-1])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)

    def saying(body: str, date: str) -> str:
        header = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
        said.append(f"{header}{f'Date: {date}' if date else 'X: y'}\r\n\r\n{body}".encode())
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    yield saying
    server.close()
    await server.wait_closed()  # a connection that outlives its loop is told of in somebody else's test


async def found(settings: NodeSettings, env: dict[str, str]) -> dict[str, Finding]:
    engine = settings.engine("test")
    try:
        return {item.code: item for item in await check_machine(settings, engine, env)}
    finally:
        await engine.close()


def server(version: str = VERSION) -> str:
    return json.dumps({"name": "tuneplane", "version": version})


async def test_a_machine_of_one_console_alone_is_not_asked_for_what_a_node_needs(settings: NodeSettings) -> None:
    seen = await found(replace(settings, storage_root=None), {})
    assert "node-not-set-up" in seen
    assert not [code for code, item in seen.items() if item.level == "error"]
    assert {"process-isolates-nothing", "gpu-none"} <= seen.keys()


async def test_a_node_on_which_all_is_well(
    settings: NodeSettings, env: dict[str, str], console: Callable[[str, str], str]
) -> None:
    url = console(server(), formatdate(usegmt=True))
    seen = await found(replace(settings, console_url=url), env)
    assert not [item for item in seen.values() if item.level == "error"]
    assert {"storage-ready", "token-ready", "node-port-free", "console-ready", "console-token-ready"} <= seen.keys()
    assert "token-file-open" not in seen


async def test_everything_that_is_missing_is_told_at_once_with_a_hint(settings: NodeSettings, tmp_path: Path) -> None:
    seen = await found(
        replace(settings, storage_root=tmp_path / "nowhere", console_url=f"http://127.0.0.1:{free_port()}"),
        {"TUNEPLANE_AGENT_TOKEN": "short"},
    )
    errors = {code: item for code, item in seen.items() if item.level == "error"}
    assert errors.keys() == {"storage-missing", "agent-token-invalid", "console-unreachable"}
    assert all(item.hint for item in errors.values())
    assert str(tmp_path / "nowhere") in errors["storage-missing"].text
    unset = await found(replace(settings, storage_root=None), {"TUNEPLANE_AGENT_TOKEN": TOKEN})
    assert unset["setting-missing"].level == "error"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
async def test_a_storage_root_that_is_read_only_is_told(
    settings: NodeSettings, env: dict[str, str], read_only: Path
) -> None:
    seen = await found(replace(settings, storage_root=read_only), env)
    assert seen["storage-read-only"].level == "error"


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "ro"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(place)], check=True, timeout=60)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True, timeout=60)


async def test_a_token_that_others_can_read_is_a_warning(settings: NodeSettings, env: dict[str, str]) -> None:
    os.chmod(env["TUNEPLANE_AGENT_TOKEN_FILE"], 0o644)  # noqa: PTH101
    seen = await found(settings, env)
    assert (seen["token-file-open"].level, "0644" in seen["token-file-open"].text) == ("warning", True)


async def test_a_port_that_another_program_has_is_told_apart_from_one_that_a_node_has(
    settings: NodeSettings, env: dict[str, str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", settings.port)) as other:
        accepting = asyncio.get_running_loop().run_in_executor(None, hang_up, other)
        assert (await found(settings, env))["port-taken"].level == "error"
        await accepting
    served = ServedNode(settings.engine("served"), tmp_path)
    await served.start()
    port = int(served.address.rpartition(":")[2])
    seen = await found(replace(settings, port=port), env)
    await served.stop()
    assert "node-port-ours" in seen
    assert "port-taken" not in seen


def hang_up(server: socket.socket) -> None:
    """As a program that does not speak HTTP."""
    connection, _address = server.accept()
    connection.close()


@pytest.mark.parametrize(
    ("body", "date", "code"),
    [
        ("<html>a proxy</html>", "", "console-answer"),
        ('{"name": "grafana"}', "", "console-answer"),
        (server("99.0.0"), "", "node-version"),
        (server(), "Sat, 01 Jan 2000 00:00:00 GMT", "clock-offset"),
        (server(), "yesterday", "console-ready"),
    ],
)
async def test_what_answers_at_the_console_s_address(
    body: str, date: str, code: str, settings: NodeSettings, env: dict[str, str], console: Callable[[str, str], str]
) -> None:
    assert code in await found(replace(settings, console_url=console(body, date)), env)


async def test_a_token_that_the_console_does_not_accept_is_told_before_the_daemon_starts(
    settings: NodeSettings, env: dict[str, str], refusing_console: tuple[str, list[bytes]]
) -> None:
    url, asked = refusing_console
    seen = await found(replace(settings, console_url=url), env)
    assert seen["console-token"].level == "error"
    assert "the agent token is not the console's" in seen["console-token"].text
    assert "console-token-ready" not in seen
    assert [b"authorization" in request.lower() for request in asked] == [False, True], "only the announcement has it"


async def test_what_is_no_console_gets_no_token(
    settings: NodeSettings, env: dict[str, str], console: Callable[[str, str], str]
) -> None:
    seen = await found(replace(settings, console_url=console('{"name": "grafana"}', "")), env)
    assert not {"console-token", "console-token-ready"} & seen.keys()


async def test_https_towards_a_console_without_tls_is_told_apart_from_one_that_is_away(
    settings: NodeSettings, env: dict[str, str]
) -> None:
    async def hang_up_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(hang_up_at_once, "127.0.0.1", 0) as plain:
        url = f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}"
        seen = await found(replace(settings, console_url=url), env)
    assert "http://" in seen["console-tls"].text
    assert "console-unreachable" not in seen


async def test_cards_are_named_with_their_driver_and_one_without_a_driver_is_told(
    settings: NodeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path / "pci" / "0000:4f:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030200\n")
    (tmp_path / "pci" / "0000:00:00.0").mkdir()
    bare = await take_inventory(tmp_path)
    assert [item.code for item in checks._gpus(bare, tmp_path / "pci")] == ["gpu-no-driver"]
    assert [item.code for item in checks._gpus(bare, tmp_path / "none")] == ["gpu-none"]
    install_nvidia_smi(tmp_path, 'echo "0, GPU-a, NVIDIA H200, 143771, 570.86.15"', monkeypatch)
    (ready,) = checks._gpus(await take_inventory(tmp_path))
    assert ready.text == "1 GPUs answer (NVIDIA H200), driver 570.86.15."


def test_low_limits_are_warnings_with_the_directive_to_raise_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {
        resource.RLIMIT_NOFILE: 1024,
        resource.RLIMIT_NPROC: resource.RLIM_INFINITY,
        resource.RLIMIT_MEMLOCK: 65536,
    }
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], limits[kind]))
    (files,) = check_limits(tmp_path / "no-infiniband")
    assert (files.level, "nofile" in files.text, "LimitNOFILE=" in files.hint) == ("warning", True, True)
    assert [item.values["limit"] for item in check_limits(tmp_path)] == ["nofile", "memlock"], "RDMA pins memory"


def test_the_command_prints_findings_with_their_hints_in_both_languages_and_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {
        "TUNEPLANE_NODE_STATE": tmp_path / "state", "TUNEPLANE_RUNTIME": "process", "TUNEPLANE_AGENT_TOKEN": TOKEN,
        "TUNEPLANE_STORAGE_ROOT": tmp_path / "nowhere", "TUNEPLANE_NODE_PORT": free_port(),
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("TUNEPLANE_AGENT_TOKEN_FILE", raising=False)
    monkeypatch.delenv("TUNEPLANE_CONSOLE_URL", raising=False)
    assert cli.main(["check", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert not answer["ok"]
    assert {"storage-missing", "setting-missing", "token-ready"} <= {item["code"] for item in answer["findings"]}
    monkeypatch.setenv("TUNEPLANE_LANG", "zh-Hans")
    with using_language("en"):
        assert cli.main(["check"]) == 1
    shown = capsys.readouterr().out
    assert "存储根" in shown
    assert TOKEN not in shown
    assert not (tmp_path / "state").exists(), "it only looks"
