"""What Slurm's refusals mean for a launch, and which setting to change. Slurm's own words are quoted."""

from __future__ import annotations

from dataclasses import dataclass

from tuneplane.i18n import N_
from tuneplane_server.executors.port import ExecutorUnreachableError, LaunchDelayedError, LaunchRefusedError
from tuneplane_server.executors.slurm.rest.models import SlurmError

REFUSED, UNREACHABLE = "slurm-refused", "slurm-unreachable"
DETAIL = 2000  # characters
_TOKEN, _USER, _URL = "TUNEPLANE_SLURM_TOKEN_FILE", "TUNEPLANE_SLURM_USER", "TUNEPLANE_SLURM_URL"


@dataclass(frozen=True)
class Meaning:
    """`hint`: what to do, with the setting in it: a message id. `later`: it may go by itself."""

    hint: str
    later: bool = False


_TOO_LARGE = Meaning(
    N_(
        "no machine of the partition has what one machine of the run wants: ask for fewer GPUs, CPUs or less memory, or give the "
        "profile another partition in TUNEPLANE_SLURM_PARTITION"
    )
)
_MEANINGS = {
    2000: Meaning(N_("TUNEPLANE_SLURM_PARTITION names a partition that is not there")),
    2001: Meaning(N_("the cluster has no default partition: set TUNEPLANE_SLURM_PARTITION")),
    2002: Meaning(
        N_(
            "TUNEPLANE_SLURM_USER may not use this partition or account: see TUNEPLANE_SLURM_PARTITION and TUNEPLANE_SLURM_ACCOUNT"
        )
    ),
    2003: Meaning(N_("TUNEPLANE_SLURM_USER may not use this partition: change TUNEPLANE_SLURM_PARTITION")),
    2004: Meaning(N_("change TUNEPLANE_SLURM_PARTITION")),
    2005: _TOO_LARGE,
    2006: Meaning(
        N_(
            "the partition gives fewer machines than the run asks for: change TUNEPLANE_SLURM_PARTITION, or ask for fewer"
        )
    ),
    2012: Meaning(N_("the batch script is larger than the cluster takes (max_script_size)")),
    2014: _TOO_LARGE,
    2015: Meaning(
        N_(
            "the partition's limits on time or machines are lower: change TUNEPLANE_SLURM_PARTITION or TUNEPLANE_SLURM_TIME_LIMIT"
        )
    ),
    2016: Meaning(N_("the machines are taken for now"), later=True),
    2019: Meaning(N_("the job was sent without an environment")),
    2027: Meaning(N_("slurmctld is in standby"), later=True),
    2045: Meaning(
        N_("TUNEPLANE_SLURM_ACCOUNT names an account that is not there, or that TUNEPLANE_SLURM_USER is not in")
    ),
    2050: Meaning(
        N_(
            "a limit of the account or QOS on submitted jobs is reached: see TUNEPLANE_SLURM_ACCOUNT and TUNEPLANE_SLURM_QOS, or wait"
        ),
        later=True,
    ),
    2051: Meaning(
        N_(
            "the time limit is longer than the partition's: lower limits.max_duration of the run or TUNEPLANE_SLURM_TIME_LIMIT"
        )
    ),
    2052: Meaning(N_("TUNEPLANE_SLURM_USER may not use the reservation in TUNEPLANE_SLURM_RESERVATION")),
    2053: Meaning(N_("TUNEPLANE_SLURM_RESERVATION names a reservation that is not there")),
    2055: Meaning(N_("the reservation in TUNEPLANE_SLURM_RESERVATION is in use"), later=True),
    2056: Meaning(N_("the reservation in TUNEPLANE_SLURM_RESERVATION cannot be used now"), later=True),
    2063: Meaning(
        N_("Slurm does not see the run's directory: is TUNEPLANE_STORAGE_ROOT mounted there, at the same path?")
    ),
    2066: Meaning(N_("TUNEPLANE_SLURM_QOS names a QOS that is not there, or that the account may not use")),
    2068: Meaning(N_("the machines are not available now"), later=True),
    2070: Meaning(N_("the partition is down now: change TUNEPLANE_SLURM_PARTITION, or wait"), later=True),
    2072: Meaning(
        N_(
            "the partition has no GPUs of that type: give the profile another partition in TUNEPLANE_SLURM_PARTITION, or see the Type in gres.conf"
        )
    ),
    9001: Meaning(
        N_(
            "the cluster knows no GPUs of that type: give the profile another partition in TUNEPLANE_SLURM_PARTITION, or see the Type in gres.conf"
        )
    ),
}
_OTHER = Meaning(
    N_(
        "see TUNEPLANE_SLURM_PARTITION, TUNEPLANE_SLURM_ACCOUNT, TUNEPLANE_SLURM_QOS, TUNEPLANE_SLURM_RESERVATION and TUNEPLANE_SLURM_TIME_LIMIT"
    )
)


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
    return LaunchDelayedError(REFUSED, data, in_line=True) if meaning.later else LaunchRefusedError(REFUSED, data)


def unreachable(error: SlurmError) -> ExecutorUnreachableError:
    return ExecutorUnreachableError(f"Slurm: {explained(error)}"[:DETAIL], UNREACHABLE)
