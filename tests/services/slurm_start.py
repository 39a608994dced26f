"""Bring up a cluster of Slurm: for the whole run (`start`), or for one test module that will disturb it (`create`)."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO

from tests.services import slurm_end
from tests.services.ports import free_port
from tests.services.process import ProcessId, ServiceMissingError
from tests.services.runtime import built
from tests.services.session import Service, ServiceSession
from tests.services.slurm import SlurmCluster
from tests.services.slurm_conf import (
    CLUSTER,
    DATABASE_NAME,
    DATABASE_USER,
    NODES,
    USER,
    SlurmOptions,
    SlurmPorts,
    write_files,
)

BOOT = Path(__file__).parent / "slurm_parts/boot.sh"


def starter(version: str, options: SlurmOptions) -> Callable[[Path], Service]:
    """For `ServiceSession.get`: a cluster that the workers of a run share."""

    def start(home: Path) -> Service:
        end = _end(home)
        try:
            cluster = bring_up(home, version, options)
        except ServiceMissingError:
            slurm_end.main(home)
            raise
        return Service(facts=cluster.facts(), before_stop=[end])

    return start


def create(session: ServiceSession, version: str, options: SlurmOptions) -> tuple[SlurmCluster, Callable[[], None]]:
    """A cluster of one's own, and what ends it; it ends with the run at the latest. Raises ServiceMissingError."""
    name = f"slurm-own-{secrets.token_hex(4)}"
    home = session.folder / name
    session.own(name, Service(facts={}, before_stop=[_end(home)]))
    try:
        return bring_up(home, version, options), lambda: session.end(name)
    except ServiceMissingError:
        session.end(name)
        raise


def _end(home: Path) -> list[str]:
    return [sys.executable, "-m", "tests.services.slurm_end", str(home)]


def bring_up(home: Path, version: str, options: SlurmOptions) -> SlurmCluster:
    """A cluster in the empty folder `home` that takes jobs over REST."""
    base = _require(version)
    ports = SlurmPorts(free_port(), tuple(free_port() for _node in NODES), free_port(), free_port(), free_port())
    write_files(home, version, options, ports, base.parents[1])
    for name, mode in (("layer", 0o755), ("root", 0o755), ("shared", 0o1777)):
        (home / name).mkdir()
        (home / name).chmod(mode)
    try:
        cluster = SlurmCluster(version, home, _boot(base, home), ports, options)
        for daemon in ("munged", *(("mariadbd",) if options.accounting else ())):
            cluster.start(daemon)
        if options.accounting:
            _set_up_accounting(cluster)
        for daemon in ("slurmctld", *(f"slurmd-{node}" for node in NODES)):
            cluster.start(daemon)
        cluster.start("slurmrestd")
        cluster.wait("slurmctld gives a token", lambda: _has_token(cluster))
        cluster.wait("every node takes jobs", lambda: cluster.usable_nodes() == set(NODES))
        cluster.wait("slurmrestd answers", cluster.answers)
        if options.accounting:
            cluster.wait("slurmctld knows the limit", lambda: _limited(cluster))
    except (AssertionError, OSError, subprocess.SubprocessError) as problem:
        raise ServiceMissingError(f"Slurm {version} does not come up: {problem}") from problem
    return cluster


def _require(version: str) -> Path:
    if os.geteuid() != 0:
        raise ServiceMissingError("a cluster of Slurm needs root")
    if missing := [name for name in ("unshare", "nsenter", "pivot_root") if shutil.which(name) is None]:
        raise ServiceMissingError(f"there is no {', '.join(missing)} on the PATH (util-linux)")
    return built(f"a root with Slurm {version}", "scripts/slurm-root", version)


def _boot(base: Path, home: Path) -> ProcessId:
    """The first process of the cluster's machine, as this machine numbers it."""
    process = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--", str(BOOT), base, home, base.parents[1]],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, text=True,
    )  # fmt: skip
    outer = ProcessId.of(process.pid)
    draft = home / "holder.part"
    draft.write_text(json.dumps(asdict(outer)))
    draft.replace(home / "holder")
    assert process.stdout is not None
    said = _until_up(process.stdout)
    process.stdout.close()
    process.returncode = 0  # it is ended by pid later; the interpreter need not warn that it still runs
    if said != "up":
        raise OSError(f"its machine cannot be made: {said}")
    (child,) = slurm_end.children(outer.pid)
    return ProcessId.of(int(child))


def _until_up(output: IO[str]) -> str:
    lines: list[str] = []
    for line in output:
        if line == "up\n":
            return "up"
        lines.append(line)
    return "".join(lines).strip()[-1500:]


def _has_token(cluster: SlurmCluster) -> bool:
    try:
        cluster.write_token(cluster.token_file)
    except AssertionError:
        return False
    return True


def _set_up_accounting(cluster: SlurmCluster) -> None:
    """slurmdbd on its database, and the accounts: `research`, the user's own, and `small`, which may have four GPUs at once."""
    grants = "".join(
        f"create user {DATABASE_USER}@'{host}' identified by 'slurm'; grant all on {DATABASE_NAME}.* to {DATABASE_USER}@'{host}';"
        for host in ("localhost", "127.0.0.1")
    )
    statement = f"create database {DATABASE_NAME}; {grants}"
    cluster.wait(
        "the database answers", lambda: _succeeds(cluster, "mariadb", "-S", "/var/lib/mysql/socket", "-e", "select 1")
    )
    cluster.run("mariadb", "-S", "/var/lib/mysql/socket", "-e", statement)
    cluster.start("slurmdbd")
    cluster.wait("slurmdbd takes a cluster", lambda: _succeeds(cluster, "sacctmgr", "-i", "add", "cluster", CLUSTER))
    for words in (
        "add qos high priority=100",
        f"add account research,small cluster={CLUSTER}",
        f"add user {USER} account=research,small defaultaccount=research",
        f"modify user {USER} set qos=normal,high",
    ):
        cluster.run("sacctmgr", "-i", *words.split())


def _limited(cluster: SlurmCluster) -> bool:
    """Limits `small`. slurmctld first tells the database what there is to limit, and only then hears of what is set."""
    registered = cluster.run("sacctmgr", "-nP", "show", "cluster", "format=controlport").strip()
    limit = ["modify", "account", "small", "set", "grptres=gres/gpu=4"]
    if registered in ("", "0") or not _succeeds(cluster, "sacctmgr", "-i", *limit):
        return False
    return "gres/gpu=4" in cluster.run("scontrol", "show", "assoc_mgr", "accounts=small", "flags=assoc")


def _succeeds(cluster: SlurmCluster, *argv: str) -> bool:
    try:
        cluster.run(*argv)
    except AssertionError:
        return False
    return True
