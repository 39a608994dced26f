"""torchrun (`python -m torch.distributed.run`): one process per card, meeting at machine 0 (static rendezvous).

Source: torch 2.13, `torch/distributed/run.py` and `torch/distributed/elastic/multiprocessing/api.py`.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from tuneplane.adapters.command import LogHint, Machine
from tuneplane.adapters.experiment import pool_cpus

RANKS_DIR = "ranks"  # below the out dir: `<run>/attempt_<n>/<local rank>/{stdout,stderr}.log`
_MAPPED_RANKS = 10  # torchrun's `rank:streams` list knows ranks of one digit only
_BOTH_STREAMS = "3"
_DEFAULT_GRACE = 30  # seconds, as the JobSpec's


def torchrun_argv(
    machine: Machine,
    program: Sequence[str],
    *,
    out_dir: str,
    module: bool = False,
    processes: Optional[int] = None,
    machines: Optional[Tuple[int, int]] = None,
) -> List[str]:
    """The launcher of one machine, with `program` = script or module (`module=True`) and its arguments, which it passes on untouched.

    `processes` on this machine: one per card, one on a CPU pool, unless asked otherwise. `machines` = (rank, count) when torchrun runs on
    some of the job's machines only. Output: local rank 0 prints as it is; the others write to files below `out_dir`/`RANKS_DIR`, which the
    runner follows (`torchrun_hints`). Of several machines they are printed too, behind `[default<local rank>]:`, because there the runner
    follows no files: a rank's log would be the log of another machine.
    """
    rank, count = machines or (machine.rank, machine.count)
    local = processes_of(machine, processes)
    argv = [
        machine.python,
        "-m",
        "torch.distributed.run",
        f"--nnodes={count}",
        f"--nproc_per_node={local}",
        f"--node_rank={rank}",
        f"--master_addr={_host(machine.main_ip)}",
        f"--master_port={machine.main_port}",
        "--rdzv_backend=static",
        "--max_restarts=0",  # the console retries, from a checkpoint and on machines that work
        f"--log_dir={_log_dir(out_dir, rank, count)}",
        "--redirects=" + (_others(local) if count == 1 else "0"),
        "--tee=" + (_others(local) if count > 1 else "0"),
    ]
    if module:
        argv.append("--module")
    return [*argv, *program]


def torchrun_env(capsule: Mapping[str, Any], machine: Machine, processes: Optional[int] = None) -> Dict[str, str]:
    """What the processes need besides what torchrun gives them (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT)."""
    env = {"PYTHONUNBUFFERED": "1", **shutdown_env(capsule)}
    if machine.gpus_per_node == 0:
        env["CUDA_VISIBLE_DEVICES"] = ""  # a job that asked for no card gets none, also beside real ones
        cpus = pool_cpus(capsule)
        if cpus:
            # Else torchrun sets 1, and the number of threads decides the order of sums.
            env["OMP_NUM_THREADS"] = str(max(1, cpus // processes_of(machine, processes)))
    return env


def shutdown_env(capsule: Mapping[str, Any]) -> Dict[str, str]:
    """torchrun kills its processes 30 s after a SIGTERM, whatever grace the job was given, unless it is told."""
    limits = capsule["jobspec"]["spec"].get("limits") or {}
    return {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(int(limits.get("grace", _DEFAULT_GRACE)))}


def torchrun_hints(machine: Machine, processes: Optional[int] = None) -> Tuple[LogHint, ...]:
    """Where the output of the ranks that do not print lies, for the runner to follow."""
    return (LogHint("ranks", RANKS_DIR),) if processes_of(machine, processes) > 1 else ()


def processes_of(machine: Machine, processes: Optional[int] = None) -> int:
    """How many processes run on this machine. Raises `ValueError` for fewer than one."""
    if processes is not None and processes < 1:
        raise ValueError(f"{processes} processes")
    return processes or max(1, machine.gpus_per_node)


def _others(local: int) -> str:
    """Both streams of every local rank but 0, whose lines are the machine's own; all of them where the list cannot name them."""
    if local == 1:
        return "0"
    if local > _MAPPED_RANKS:
        return _BOTH_STREAMS
    return ",".join(f"{rank}:{_BOTH_STREAMS}" for rank in range(1, local))


def _log_dir(out_dir: str, rank: int, count: int) -> str:
    """All machines write to one out dir, so each gets a folder of its own."""
    return f"{out_dir}/{RANKS_DIR}" if count == 1 else f"{out_dir}/{RANKS_DIR}/machine-{rank}"


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
