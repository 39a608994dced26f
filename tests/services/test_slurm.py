"""The clusters of Slurm that tests stand on: real, of both versions, and able to be broken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.plugin import slurm_or_skip
from tests.services.process import ProcessId
from tests.services.session import ServiceSession
from tests.services.slurm import SlurmCluster, SlurmOptions
from tests.services.slurm_conf import NODES
from tests.services.slurm_start import starter
from tests.services.test_session import SLEEP, wait_gone

pytestmark = pytest.mark.services


def test_it_is_the_version_that_was_asked_for(slurm: SlurmCluster) -> None:
    assert slurm.run("slurmctld", "-V").startswith(f"slurm-wlm {slurm.version}.")
    assert slurm.answers()
    assert slurm.usable_nodes() == set(NODES)


def test_a_job_of_two_nodes_has_its_cards_and_the_folder_of_the_test(slurm: SlurmCluster) -> None:
    made = slurm.folder / f"made-{os.getpid()}"
    command = f"echo $CUDA_VISIBLE_DEVICES on $SLURMD_NODENAME >{made}.$SLURM_PROCID"
    slurm.run("srun", "-N2", "-n2", "--gres=gpu:h200:8", "bash", "-c", command, user=slurm.user)
    said = [Path(f"{made}.{rank}").read_text().split(" on ") for rank in (0, 1)]
    assert [cards for cards, _node in said] == ["0,1,2,3,4,5,6,7"] * 2
    assert len({node for _cards, node in said}) == 2


def test_the_tests_apptainer_runs_an_image_that_is_a_python_environment(slurm: SlurmCluster) -> None:
    image = slurm.image("python.sif", Path(sys.prefix))
    script = slurm.folder / f"job-{os.getpid()}.sh"
    code = "import os, sys; print(sys.version_info[:2], os.environ['A'], 'B' in os.environ, os.listdir('/tmp'), os.getuid())"
    script.write_text(
        "#!/bin/sh\nexport APPTAINERENV_A=given B=kept\n"
        f'apptainer exec --cleanenv --containall --no-home --nv --bind {slurm.folder}:{slurm.folder}:ro {image} python -c "{code}"\n'
    )
    said = slurm.run("srun", "-n1", "--gres=gpu:1", "sh", str(script), user=slurm.user)
    top = slurm.folder.parts[2]
    assert (
        said.strip()
        == f"{tuple(sys.version_info[:2])} given False ['{top}'] {slurm.run('id', '-u', slurm.user).strip()}"
    )


def test_accounting_writes_down_what_ends_and_limits_what_runs(slurm_accounting: SlurmCluster) -> None:
    submit = ("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "true")
    done = slurm_accounting.run(*submit, user=slurm_accounting.user).strip()
    over = slurm_accounting.run(*submit, "-A", "small", "--gres=gpu:8", user=slurm_accounting.user).strip()

    def say(*command: str) -> list[str]:
        return slurm_accounting.run(*command).split()

    slurm_accounting.wait(
        "it is written down",
        lambda: say("sacct", "-nX", "-j", done, "-o", "State,Account") == ["COMPLETED", "research"],
    )
    slurm_accounting.wait("it waits", lambda: say("squeue", "-hj", over, "-o", "%T %r") == ["PENDING", "AssocGrpGRES"])
    slurm_accounting.run("scancel", over)


def test_its_daemons_can_be_killed_and_started_again(pytestconfig: pytest.Config) -> None:
    with slurm_or_skip(pytestconfig, "22.05") as cluster:
        for daemon in ("slurmctld", "slurmrestd", "slurmd-n2"):
            cluster.kill(daemon)
            assert not cluster.running(daemon)
        assert not cluster.answers()
        for daemon in ("slurmctld", "slurmrestd", "slurmd-n2"):
            cluster.start(daemon)
        cluster.wait("it answers", cluster.answers)
        cluster.node_down("n3")
        assert "n3" not in cluster.usable_nodes()
        cluster.resume("n3")
        holder, folder = cluster.holder, cluster.home
    assert not holder.alive()
    assert not folder.exists()


def test_a_killed_run_leaves_no_cluster_and_no_job_of_it() -> None:
    controller = subprocess.Popen(SLEEP)
    folder = ServiceSession.create().folder
    try:
        facts = ServiceSession(folder, controller.pid).get("slurm", starter("24.11", SlurmOptions()))
        cluster, guardian = SlurmCluster.of(facts), ProcessId.of(int((folder / "guardian.pid").read_text()))
        cluster.run("sbatch", "-o", "/dev/null", "--wrap", "exec sleep 600", user=cluster.user)
        cluster.wait("it runs", lambda: "RUNNING" in cluster.jobs().values())
    finally:
        controller.kill()
        controller.wait()
    assert wait_gone(guardian)
    assert not cluster.holder.alive()
    assert not folder.exists()
