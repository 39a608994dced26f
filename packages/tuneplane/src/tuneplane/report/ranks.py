"""Which rank this process is, from the environment that launchers set."""

from __future__ import annotations

from typing import Mapping

from tuneplane.contract.words import ENV_MACHINE_COUNT, ENV_MACHINE_RANK

# torchrun and accelerate, then Open MPI, MVAPICH/Intel MPI, Slurm: the first one that is set wins.
_RANK_NAMES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def detect_rank(environ: Mapping[str, str]) -> int:
    """The global rank, unique over all machines of the job; 0 is the main rank.

    A script without a launcher is as many processes as there are machines, so its rank is the machine's. A launcher started
    once per machine without knowing of the others counts from 0 on each of them; its ranks are moved apart, because two
    processes that call themselves rank 0 would overwrite each other's points.
    """
    machine_rank = _number(environ, ENV_MACHINE_RANK, 0)
    found = [_number(environ, name, -1) for name in _RANK_NAMES]
    rank = next((value for value in found if value >= 0), -1)
    if rank < 0:
        return machine_rank
    world, local_world = _number(environ, "WORLD_SIZE", 0), _number(environ, "LOCAL_WORLD_SIZE", 0)
    if _number(environ, ENV_MACHINE_COUNT, 1) > 1 and 0 < world <= local_world:
        return machine_rank * local_world + rank
    return rank


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
