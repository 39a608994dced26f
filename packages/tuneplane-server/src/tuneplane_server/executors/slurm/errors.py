"""What Slurm's refusals mean for a launch, and which setting to change. Slurm's own words are quoted."""

from __future__ import annotations

from dataclasses import dataclass

from tuneplane_server.executors.port import ExecutorUnreachableError, LaunchDelayedError, LaunchRefusedError
from tuneplane_server.executors.slurm.rest.models import SlurmError

REFUSED, UNREACHABLE = "slurm-refused", "slurm-unreachable"
DETAIL = 2000  # characters
_PARTITION, _ACCOUNT, _QOS = "TUNEPLANE_SLURM_PARTITION", "TUNEPLANE_SLURM_ACCOUNT", "TUNEPLANE_SLURM_QOS"
_RESERVATION, _TIME = "TUNEPLANE_SLURM_RESERVATION", "TUNEPLANE_SLURM_TIME_LIMIT"
_TOKEN, _USER, _URL = "TUNEPLANE_SLURM_TOKEN_FILE", "TUNEPLANE_SLURM_USER", "TUNEPLANE_SLURM_URL"
_STORAGE = "TUNEPLANE_STORAGE_ROOT"


@dataclass(frozen=True)
class Meaning:
    """`hint`: what to do, with the setting in it. `later`: it may go by itself."""

    hint: str
    later: bool = False


_TOO_LARGE = Meaning(
    f"no machine of the partition has what one machine of the run wants: ask for fewer GPUs, CPUs or less memory, or give the "
    f"profile another partition in {_PARTITION}"
)
_MEANINGS = {
    2000: Meaning(f"{_PARTITION} names a partition that is not there"),
    2001: Meaning(f"the cluster has no default partition: set {_PARTITION}"),
    2002: Meaning(f"{_USER} may not use this partition or account: see {_PARTITION} and {_ACCOUNT}"),
    2003: Meaning(f"{_USER} may not use this partition: change {_PARTITION}"),
    2004: Meaning(f"change {_PARTITION}"),
    2005: _TOO_LARGE,
    2006: Meaning(f"the partition gives fewer machines than the run asks for: change {_PARTITION}, or ask for fewer"),
    2012: Meaning("the batch script is larger than the cluster takes (max_script_size)"),
    2014: _TOO_LARGE,
    2015: Meaning(f"the partition's limits on time or machines are lower: change {_PARTITION} or {_TIME}"),
    2016: Meaning("the machines are taken for now", later=True),
    2019: Meaning("the job was sent without an environment"),
    2027: Meaning("slurmctld is in standby", later=True),
    2045: Meaning(f"{_ACCOUNT} names an account that is not there, or that {_USER} is not in"),
    2050: Meaning(
        f"a limit of the account or QOS on submitted jobs is reached: see {_ACCOUNT} and {_QOS}, or wait", later=True
    ),
    2051: Meaning(f"the time limit is longer than the partition's: lower limits.max_duration of the run or {_TIME}"),
    2052: Meaning(f"{_USER} may not use the reservation in {_RESERVATION}"),
    2053: Meaning(f"{_RESERVATION} names a reservation that is not there"),
    2055: Meaning(f"the reservation in {_RESERVATION} is in use", later=True),
    2056: Meaning(f"the reservation in {_RESERVATION} cannot be used now", later=True),
    2063: Meaning(f"Slurm does not see the run's directory: is {_STORAGE} mounted there, at the same path?"),
    2066: Meaning(f"{_QOS} names a QOS that is not there, or that the account may not use"),
    2068: Meaning("the machines are not available now", later=True),
    2070: Meaning(f"the partition is down now: change {_PARTITION}, or wait", later=True),
    2072: Meaning(
        f"the partition has no GPUs of that type: give the profile another partition in {_PARTITION}, or see the Type in gres.conf"
    ),
    9001: Meaning(
        f"the cluster knows no GPUs of that type: give the profile another partition in {_PARTITION}, or see the Type in gres.conf"
    ),
}
_OTHER = Meaning(f"see {_PARTITION}, {_ACCOUNT}, {_QOS}, {_RESERVATION} and {_TIME}")


def said(error: SlurmError) -> str:
    """Slurm's words, and its number for them."""
    return error.text if error.code is None else f"{error.text} ({error.code})"


def explained(error: SlurmError) -> str:
    """Why nothing is known, with the setting to look at."""
    if error.kind == "auth":
        return f"{said(error)}; is the token in {_TOKEN} fresh, and made for {_USER}?"
    if error.kind == "version":
        return f"{said(error)}; {_URL} must lead to a slurmrestd with one of them"
    if error.kind == "refused":
        return f"{said(error)}; {meaning_of(error).hint}"
    return f"{said(error)} (asked at {_URL})"


def meaning_of(error: SlurmError) -> Meaning:
    return _OTHER if error.code is None else _MEANINGS.get(error.code, _OTHER)


def launch_error(error: SlurmError) -> Exception:
    """What a launch raises for it. Of kind `unknown-outcome` it must have been looked for before."""
    if error.kind not in ("refused", "not-found"):
        return ExecutorUnreachableError(f"Slurm: {explained(error)}"[:DETAIL], UNREACHABLE)
    meaning = meaning_of(error)
    data = {"code": error.code or "", "detail": f"Slurm said: {said(error)}; {meaning.hint}"[:DETAIL]}
    return (LaunchDelayedError if meaning.later else LaunchRefusedError)(REFUSED, data)


def unreachable(error: SlurmError) -> ExecutorUnreachableError:
    return ExecutorUnreachableError(f"Slurm: {explained(error)}"[:DETAIL], UNREACHABLE)
