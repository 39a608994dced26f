"""Whoever writes down the settings of the guide to several machines gets a node that has joined: a real console, a real daemon."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import LANGUAGES
from tests.e2e.harness import BIN, Console, wait_until
from tests.services.ports import free_port
from tests.services.session import ROOT
from tests.tuneplane_node.daemon.served import Daemon

pytestmark = pytest.mark.services
PAGES = {language: ROOT / "docs" / language / "guides" / "several-machines.md" for language in LANGUAGES}
UNIT = ROOT / "deploy" / "systemd" / "tuneplane-node.service"
_SETTINGS = re.compile(r"^```\n((?:TUNEPLANE_\w+=\S+\n)+)```$", re.MULTILINE)
TOKEN_FILE = "/etc/tuneplane/agent-token"


def settings_of(page: Path) -> list[dict[str, str]]:
    """The console's and the node's, as the page has them."""
    found = _SETTINGS.findall(page.read_text(encoding="utf-8"))
    return [dict(line.split("=", 1) for line in block.splitlines()) for block in found]


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """What the page names -> what it is in this test."""
    port = free_port()
    (tmp_path / "data").mkdir()
    token = tmp_path / "agent-token"
    token.write_text("0123456789abcdef0123456789abcdef\n")
    token.chmod(0o600)
    return {
        TOKEN_FILE: str(token),
        "/data/tuneplane": str(tmp_path / "data"),
        "/var/lib/tuneplane": str(tmp_path / "state"),
        "http://10.0.0.1:8642": f"http://127.0.0.1:{port}",
        "0.0.0.0": "127.0.0.1",
        "docker": "process",
    }


def here(settings: dict[str, str], places: dict[str, str]) -> dict[str, str]:
    changed = dict(settings)
    for there, ours in places.items():
        changed = {name: value.replace(there, ours) for name, value in changed.items()}
    return changed


@pytest.fixture
def console(tmp_path: Path, places: dict[str, str]) -> Iterator[Console]:
    settings = here(settings_of(PAGES["en"])[0], places)
    port = int(places["http://10.0.0.1:8642"].rpartition(":")[2])
    running = Console(tmp_path / "console", {**settings, "TUNEPLANE_PORT": str(port)}, port=port).start()
    yield running
    running.stop()


def node_health(console: Console, token: str) -> list[str]:
    asked = urllib.request.Request(f"{console.url}/api/v1/nodes", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return [node["health"] for node in json.load(answer)["items"]]


def test_the_settings_of_the_guide_make_a_node_that_has_joined(
    console: Console, places: dict[str, str], tmp_path: Path
) -> None:
    token = console.add_user(scopes=("read", "write", "admin"))
    settings = here(settings_of(PAGES["en"])[1], places) | {"TUNEPLANE_NODE_PORT": str(free_port())}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEPLANE_")}
    environment = {**kept, **settings, "TUNEPLANE_LANG": "en"}
    looked = subprocess.run(
        [BIN / "tuneplane-node", "check", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    seen = json.loads(looked.stdout)
    assert seen["ok"], seen
    codes = {finding["code"] for finding in seen["findings"]}
    assert {"storage-ready", "token-ready", "node-port-free", "console-ready"} <= codes
    assert "token-file-open" not in codes
    daemon = Daemon(tmp_path / "node", {}).spawn(environment)
    try:
        wait_until("the node has joined", lambda: node_health(console, token) == ["ready"])
    finally:
        assert daemon.process is not None
        daemon.process.terminate()
        daemon.process.wait(60)


def test_both_languages_have_the_same_settings() -> None:
    english, chinese = (settings_of(page) for page in PAGES.values())
    assert english == chinese
    assert len(english) == 2


def test_the_unit_finds_what_the_guide_has_installed() -> None:
    unit, page = UNIT.read_text(), PAGES["en"].read_text(encoding="utf-8")
    program, file = re.findall(r"^(?:ExecStart|EnvironmentFile)=(\S+)", unit, re.MULTILINE)[::-1]
    assert f"tuneplane-node {program}\n" in page
    assert f"`{file}`" in page
    state = re.search(r"TUNEPLANE_NODE_STATE=(\S+)", unit)
    assert state is not None
    assert settings_of(PAGES["en"])[1]["TUNEPLANE_NODE_STATE"] == state[1]
    assert "\nKillMode=process\n" in unit, "a stop of the service ends no job"
