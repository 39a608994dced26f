"""Nothing in the packages runs sbatch, srun outside a batch script, scontrol, ssh or their like: Slurm is spoken with over REST."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.repo.slurm_rules import BATCH_SCRIPTS, PROBE_SCRIPT, SLURM, commands_in_text, slurm_commands, texts
from tests.repo.tree import PACKAGES, modules, relative


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_starts_a_command_of_slurm_or_ssh(package: str) -> None:
    seen = list(modules(package))
    assert len(seen) > 20
    assert {name: found for name, tree in seen if (found := slurm_commands(name, tree))} == {}


def test_no_script_or_data_of_the_packages_does() -> None:
    seen = list(texts())
    assert any(relative(path).endswith(PROBE_SCRIPT) for path in seen)
    found = {relative(path): commands_in_text(path, path.read_text(encoding="utf-8")) for path in seen}
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("tuneplane_server.executors.local", 'import subprocess\nsubprocess.run(["sbatch", "job.sh"])'),
        ("tuneplane_server.executors.local", 'from subprocess import Popen\nPopen("ssh login sbatch job.sh", shell=True)'),
        ("tuneplane_server.doctor", 'COMMAND = ("/usr/bin/scontrol", "show", "config")'),
        ("tuneplane_server.doctor", 'shutil.which("squeue")'),
        ("tuneplane_server.doctor", 'run(f"scancel {job_id}")'),
        ("tuneplane_server.doctor", 'os.system("sba" "tch " + path)'),
        ("tuneplane_server.doctor", 'os.system("sba" + "tch")'),
        ("tuneplane_server.doctor", 'os.execvp(b"srun", [])'),
        ("tuneplane_server.doctor", 'SCRIPT = """#!/bin/sh\nset -e\nsacct --json\n"""'),
        ("tuneplane_server.doctor", 'os.system(_("ssh {host}").format(host=host))'),
        ("tuneplane_node.engine.podman", 'await asyncio.create_subprocess_exec("srun", "true")'),
        ("tuneplane.client.http", "import paramiko"),
        ("tuneplane.client.http", "def late():\n    from asyncssh import connect"),
        (f"{SLURM}.launching", 'TEXT = "srun true"'),
        (f"{SLURM}.launching", "import asyncio\nawait asyncio.create_subprocess_exec(path)"),
        (f"{SLURM}.launching", "import subprocess\nsubprocess.check_output(command)"),
        (f"{SLURM}.launching", "os.posix_spawn(path, [], {})"),
        (f"{BATCH_SCRIPTS}.batch", 'TEXT = "scontrol show hostnames"'),
        (f"{BATCH_SCRIPTS}.batch", 'import subprocess\nsubprocess.run(["srun", "true"])'),
        (f"{BATCH_SCRIPTS}s.batch", 'TEXT = "srun true"'),
    ],
)  # fmt: skip
def test_a_command_is_seen_wherever_it_is_hidden(name: str, source: str) -> None:
    assert slurm_commands(name, ast.parse(source, mode="exec")) != []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("tuneplane_server.doctor", '"""Never calls sbatch."""'),
        ("tuneplane_server.doctor", 'def late():\n    """Nor scontrol."""'),
        ("tuneplane_server.doctor", 'hint = _("on the Slurm side: scontrol token")'),
        ("tuneplane_server.doctor", 'NAMES = {".ssh", "slurm", "sshd_config", "sinfonia", "/x/srun.py"}'),
        ("tuneplane_server.doctor", 'import subprocess\nsubprocess.run(["git", "status"])'),
        (f"{BATCH_SCRIPTS}.batch", 'TEXT = "exec srun --nodes=1 true"'),
    ],
)
def test_what_starts_nothing_passes(name: str, source: str) -> None:
    assert slurm_commands(name, ast.parse(source)) == []


@pytest.mark.parametrize(
    ("path", "line", "seen"),
    [
        ("tuneplane/runner/bootstrap.sh", "exec /usr/bin/srun true", False),
        (PROBE_SCRIPT, "srun --help # not scontrol", True),
        (PROBE_SCRIPT, "x=$(scontrol show job)", False),
        (PROBE_SCRIPT, "# sbatch starts this", True),
        ("tuneplane/recipes/catalog/custom/custom/recipe.yaml", "launcher: sbatch", False),
    ],
)
def test_shell_and_data_are_read_as_well(path: str, line: str, seen: bool) -> None:
    assert (commands_in_text(Path(path), line) == []) is seen
