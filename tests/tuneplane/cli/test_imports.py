"""Start-up: which modules a command imports. What it does not import it does not wait for; the times are `make bench`'s."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "pydantic",
    "httpx2",
    "httpcore2",
    "yaml",
    "rich",
    "click",
    "typer",
    "pathspec",
    "rfc8785",
    "asyncio",
    "ssl",
    "tuneplane_server",
}
PROBE = """
import json, sys
sys.argv[0] = "tp"
from tuneplane.cli.main import main
code = main()
sys.stdout.flush()
sys.stderr.write("\\n" + json.dumps([code, sorted(sys.modules)]))
"""


def imported(*arguments: str) -> set[str]:
    """Heavy packages that the command imports; the command must succeed."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    code, modules = json.loads(done.stderr.rpartition("\n")[2])
    assert code == 0, done.stderr
    return {name for name in modules if name in HEAVY}


@pytest.mark.parametrize(
    "arguments",
    [(), ("--help",), ("--version",), ("job", "--help"), ("server",), ("admin",), ("admin", "quota")],
    ids=" ".join,
)
def test_help_and_version_import_nothing_but_python(arguments: tuple[str, ...]) -> None:
    assert imported(*arguments) == set()


def test_the_list_of_methods_needs_the_index_alone() -> None:
    assert imported("methods") == {"click"}
    assert imported("methods", "trl/sft") == {"click"}
    assert imported("methods", "--json") == {"click"}


def test_servers_are_listed_without_a_connection() -> None:
    assert imported("server", "ls") == {"click"}


def test_a_lab_is_read_without_http_and_pydantic(lab: Path) -> None:
    assert imported("ls") <= {"click", "yaml", "rfc8785"}
    assert imported("validate", "first") <= {"click", "yaml", "rfc8785"}
    assert imported("new", "second", "--method", "trl/dpo") <= {"click", "yaml", "rfc8785"}
    assert imported("recipe", "lock", "first") <= {"click", "yaml", "rfc8785"}
    assert imported("recipe", "diff", "first") <= {"click", "yaml", "rfc8785"}


def test_an_offline_dry_run_needs_no_http(lab: Path) -> None:
    assert imported("submit", "first", "--profile", "cpu", "--dry-run") <= {"click", "yaml", "rfc8785", "pathspec"}
