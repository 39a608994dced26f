"""What the tests' clusters of Slurm are set up with: the text of their files."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

CLUSTER = "tp"
USER, UID = "tester", 61017  # whose jobs they are; no user of this machine, and not root
REST_USER, REST_UID = "slurmrest", 61018  # slurmrestd refuses to be root or SlurmUser
NODES = ("n1", "n2", "n3", "n4")
GPUS = 8
HOST = "tp-slurm"
CONSOLE = "console.test"  # how jobs name this machine, where the console of a test is
DATABASE_NAME, DATABASE_USER = "slurm_acct_db", "accounting"


@dataclass(frozen=True)
class SlurmOptions:
    """How a cluster differs from the plain one.

    `accounting`: with slurmdbd, accounts `research` (the user's own) and `small` (4 GPUs at once), and limits that are enforced.
    `forget_seconds`: how long slurmctld remembers a job that ended (MinJobAge, at least 2).
    `silent_seconds`: after how long without a sign of life a node is down (SlurmdTimeout).
    """

    accounting: bool = False
    forget_seconds: int = 300
    silent_seconds: int = 300
    kill_wait_seconds: int = 2


@dataclass(frozen=True)
class SlurmPorts:
    controller: int
    nodes: tuple[int, ...]
    rest: int
    database_daemon: int
    database: int


def write_files(home: Path, version: str, options: SlurmOptions, ports: SlurmPorts, cache: Path) -> None:
    """Everything that becomes /etc/slurm on the cluster's machine, and what is put into its /etc."""
    etc = home / "etc"
    (etc / "log").mkdir(parents=True)
    (etc / "jwt.key").write_bytes(secrets.token_bytes(32))
    files = {
        "slurm.conf": _slurm_conf(options, ports),
        "gres.conf": f"NodeName={_nodes()} Name=gpu Type=h200 File=/var/lib/slurm/gpu[0-{GPUS - 1}]\n",
        "cgroup.conf": "" if version == "22.05" else "CgroupPlugin=disabled\n",
        "plugstack.conf": "",
        "cache": str(cache),
        "hosts": f"127.0.0.1 localhost {HOST} {CONSOLE}\n",
        "passwd": (
            f"{USER}:x:{UID}:{UID}::/home/{USER}:/bin/bash\n"
            f"{REST_USER}:x:{REST_UID}:{REST_UID}::/nonexistent:/usr/sbin/nologin\n"
        ),
        "group": f"{USER}:x:{UID}:\n{REST_USER}:x:{REST_UID}:\n",
        "apptainer": (Path(__file__).parent / "slurm_parts/apptainer").read_text(),
    }
    if version != "22.05":
        files["oci.conf"] = _oci_conf()
    if options.accounting:
        files["slurmdbd.conf"] = _database_conf(ports)
    for name, text in files.items():
        (etc / name).write_text(text)
    for name in ("jwt.key", "slurmdbd.conf"):  # Slurm insists
        if (etc / name).exists():
            (etc / name).chmod(0o600)


def _oci_conf() -> str:
    """Slurm's own containers, with runc as the user; 22.05 takes no root file system from outside of a bundle."""
    runc, name = "/usr/sbin/runc --rootless=true --root=/run/oci", "%n.%u.%j.%s.%t"
    return (
        f'RunTimeQuery="{runc} state {name}"\nRunTimeKill="{runc} kill -a {name}"\n'
        f'RunTimeDelete="{runc} delete --force {name}"\nRunTimeRun="{runc} run {name} -b %b"\n'
    )


def _nodes() -> str:
    return f"n[1-{len(NODES)}]"


def _slurm_conf(options: SlurmOptions, ports: SlurmPorts) -> str:
    text = f"""\
ClusterName={CLUSTER}
SlurmctldHost={HOST}(127.0.0.1)
SlurmUser=slurm
AuthType=auth/munge
AuthInfo=socket=/run/munge/munge.socket.2
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
StateSaveLocation=/var/lib/slurm/state
SlurmdSpoolDir=/var/spool/slurm/%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
SlurmctldLogFile=/etc/slurm/log/slurmctld.log
SlurmdLogFile=/etc/slurm/log/slurmd-%n.log
SlurmctldPort={ports.controller}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=5
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
SlurmdParameters=config_overrides
ReturnToService=2
MinJobAge={options.forget_seconds}
SlurmdTimeout={options.silent_seconds}
KillWait={options.kill_wait_seconds}
InactiveLimit=0
EnforcePartLimits=ALL
GresTypes=gpu
"""
    for name, port in zip(NODES, ports.nodes, strict=True):
        text += (
            f"NodeName={name} NodeHostname={HOST} NodeAddr=127.0.0.1 Port={port} CPUs=16 RealMemory=64000 "
            f"Gres=gpu:h200:{GPUS} State=UNKNOWN\n"
        )
    text += """\
PartitionName=main Nodes=ALL Default=YES MaxTime=1:00:00 DefaultTime=10 PriorityTier=5 PreemptMode=OFF State=UP
PartitionName=small Nodes=n1 MaxTime=5 MaxNodes=1 PriorityTier=5 PreemptMode=OFF State=UP
PartitionName=low Nodes=ALL MaxTime=1:00:00 DefaultTime=10 PriorityTier=1 PreemptMode=CANCEL GraceTime=20 State=UP
"""
    if options.accounting:
        text += f"""\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={ports.database_daemon}
AccountingStorageTRES=gres/gpu,gres/gpu:h200
AccountingStorageEnforce=associations,limits,qos
"""
    return text


def _database_conf(ports: SlurmPorts) -> str:
    return f"""\
AuthType=auth/munge
AuthInfo=socket=/run/munge/munge.socket.2
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
DbdHost=localhost
DbdPort={ports.database_daemon}
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={ports.database}
StorageUser={DATABASE_USER}
StoragePass=slurm
StorageLoc={DATABASE_NAME}
LogFile=/etc/slurm/log/slurmdbd.log
PidFile=/run/slurmdbd.pid
"""
