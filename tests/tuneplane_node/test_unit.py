"""The systemd unit fits the command: its end is not the end of jobs, and what no restart mends is not tried for ever."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path

from tuneplane_node import cli
from tuneplane_node.daemon.serving import CLOSE_SECONDS, GRACE_SECONDS

UNIT = Path(__file__).parents[2] / "deploy/systemd/tuneplane-node.service"


def service() -> dict[str, str]:
    parser = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes=("#",))
    parser.optionxform = str  # ty: ignore[invalid-assignment] - names of systemd have capitals
    parser.read_string(UNIT.read_text())
    return dict(parser["Service"])


def test_it_runs_a_command_that_exists() -> None:
    program, *arguments = shlex.split(service()["ExecStart"])
    assert Path(program).name == "tuneplane-node"
    assert cli._parser().parse_args(arguments).run is cli.serve


def test_a_stop_ends_the_daemon_alone_and_gives_it_the_time_that_it_takes() -> None:
    assert service()["KillMode"] == "process"
    assert service()["OOMPolicy"] == "continue"
    assert float(service()["TimeoutStopSec"]) > CLOSE_SECONDS + GRACE_SECONDS


def test_it_is_started_again_unless_a_setting_makes_no_sense() -> None:
    assert service()["Restart"] == "always"
    assert int(service()["RestartPreventExitStatus"]) == cli.EXIT_USAGE


def test_its_state_is_where_the_daemon_looks_for_it() -> None:
    assert service()["Environment"] == f"TUNEPLANE_NODE_STATE=/var/lib/{service()['StateDirectory']}"
