"""`tuneplane-node` as people type it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.containers import Engine as ContainerEngine
from tuneplane_node import cli

PROGRAM = Path(sys.executable).with_name("tuneplane-node")


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in ("TUNEPLANE_CONSOLE_URL", "TUNEPLANE_AGENT_TOKEN", "TUNEPLANE_AGENT_TOKEN_FILE"):
        monkeypatch.delenv(setting, raising=False)
    monkeypatch.setenv("TUNEPLANE_NODE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TUNEPLANE_CONTAINER_SOCKET", str(tmp_path / "nowhere.sock"))


def test_check_in_process_mode_warns_and_succeeds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["check"]) == 0
    output = capsys.readouterr().out
    assert "Runtime: process" in output
    assert "isolates nothing" in output
    assert output.endswith("Jobs can run here.\n")
    assert not (tmp_path / "state").exists()


def test_check_of_an_engine_that_is_down_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--runtime", "docker", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is False
    assert answer["runtime"] == "docker"
    errors = [finding["code"] for finding in answer["findings"] if finding["level"] == "error"]
    assert errors == ["engine-unreachable"]


def test_check_of_a_real_engine_succeeds(
    docker_engine: ContainerEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNEPLANE_CONTAINER_SOCKET", docker_engine.socket)
    assert cli.main(["check", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["runtime"]) == (True, "docker")


def test_inventory_lists_the_machine_and_invented_cards_as_such(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNEPLANE_SIMULATED_GPUS", "h200:2")
    assert cli.main(["inventory"]) == 0
    text = capsys.readouterr().out
    assert "GPUs: 2" in text
    assert "0: h200 (simulated h200) simulated" in text
    assert cli.main(["inventory", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["simulated"] is True
    assert [gpu["simulated"] for gpu in answer["gpus"]] == [True, True]


@pytest.mark.parametrize(("name", "value"), [
    ("TUNEPLANE_SIMULATED_GPUS", "h200:x"), ("TUNEPLANE_RUNTIME", "kubernetes"), ("TUNEPLANE_CONTAINER_MOUNTS", "/a"),
    ("TUNEPLANE_CONTAINER_USER", "me"),
])  # fmt: skip
def test_a_setting_that_makes_no_sense_is_one_clear_message(
    name: str, value: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert cli.main(["inventory"]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert f"The setting {name} is not valid: {value}" in streams.err
    assert "Traceback" not in streams.err


def test_the_installed_command_runs() -> None:
    answer = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout.startswith("tuneplane-node ")
    nothing = subprocess.run([PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert nothing.returncode == 2
    assert "usage:" in nothing.stderr


def test_the_help_is_in_chinese_throughout() -> None:
    asked = subprocess.run(
        [PROGRAM, "--help"],
        check=True, capture_output=True, text=True, timeout=60, env={"TUNEPLANE_LANG": "zh-Hans", "PATH": "/usr/bin"},
    )  # fmt: skip
    assert "显示版本号并退出" in asked.stdout
    assert "show " not in asked.stdout
