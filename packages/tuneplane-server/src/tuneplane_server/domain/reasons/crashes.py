"""Processes that were ended by a signal: as the runner saw it, or as a launcher (torchrun, accelerate, deepspeed, a shell) says it."""

from __future__ import annotations

from tuneplane.i18n import N_
from tuneplane_server.domain.reasons.entry import ReasonEntry, Sign, Signal, Weight, anywhere


def _ended_by(number: Signal, words: str, weight: Weight = Weight.DIED) -> Sign:
    """A launcher's words for a process of its own that a signal ended."""
    said = (
        rf"exitcode {{0,4}}: -{number}\b|Signal {number} \({number.name}\)|<Signals\.{number.name}: {number}>"
        rf"|return code = -{number}\b|process \d{{1,4}} terminated with signal {number.name}\b"
    )
    return anywhere(f"{said}|{words}", weight)


ENTRIES = (
    ReasonEntry(
        "segmentation-fault",
        "user",
        N_("the trainer crashed in native code (segmentation fault)"),
        N_(
            "an extension that does not fit the image's torch, CUDA or Python is the usual cause; with PYTHONFAULTHANDLER=1 in the run's environment the log shows the line of Python"
        ),
        retry=True,
        signs=(_ended_by(Signal.SIGSEGV, r"Fatal Python error: Segmentation fault|\bSegmentation fault(?:$| )"),),
        signals=(Signal.SIGSEGV,),
        seen="Fatal Python error: Segmentation fault",
    ),
    ReasonEntry(
        "bus-error",
        "user",
        N_("the trainer crashed on memory that was not there (bus error)"),
        N_(
            "full shared memory or a data file that was cut short while in use does this: use fewer data loader workers, and check the files"
        ),
        retry=True,
        signs=(_ended_by(Signal.SIGBUS, r"Fatal Python error: Bus error|\bBus error(?:$| )"),),
        signals=(Signal.SIGBUS,),
        seen="Fatal Python error: Bus error",
    ),
    ReasonEntry(
        "illegal-instruction",
        "user",
        N_("the trainer used an instruction that the node's processor does not have"),
        N_(
            "a package in the image was built for another processor: install a build for this one, or choose another node"
        ),
        retry=False,
        signs=(_ended_by(Signal.SIGILL, r"Fatal Python error: Illegal instruction|\bIllegal instruction(?:$| )"),),
        signals=(Signal.SIGILL,),
        seen="Fatal Python error: Illegal instruction",
    ),
    ReasonEntry(
        "killed",
        "infra",
        N_("the run was killed from outside"),
        N_("the kernel's log on the node may say by whom, for example for want of memory"),
        retry=True,
        signs=(_ended_by(Signal.SIGKILL, r"^Killed$|^\S{1,300}: line \d{1,6}: {1,6}\d{1,10} Killed\b"),),
        signals=(Signal.SIGKILL,),
        seen="train.sh: line 2:  7239 Killed                  python3 train.py",
    ),
    ReasonEntry(
        "aborted",
        "user",
        N_("the trainer aborted itself (SIGABRT)"),
        N_("native code found what it could not go on with: the lines before the stack trace in the log say what"),
        retry=True,
        signs=(
            _ended_by(
                Signal.SIGABRT, r"Fatal Python error: Aborted|terminate called after throwing", Weight.LAST_RESORT
            ),
        ),
        signals=(Signal.SIGABRT,),
        seen="terminate called after throwing an instance of 'c10::Error'",
    ),
)
