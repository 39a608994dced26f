"""What a probe's answer means, as findings. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tuneplane.i18n import _, ngettext
from tuneplane_server.executors.port import Finding
from tuneplane_server.executors.slurm.probe.answers import Answer, ExitVerdict, StorageState

LEAST_TMP_GB = 5.0
MOST_CLOCK_SECONDS = 60.0
OK = 200


@dataclass(frozen=True)
class Asked:
    """What the console knows of a probe. `partition`: for people. `cards`: how many it asked for. `answers_here`: whether the console
    answers at its ingest address when it is asked from its own machine; None: not looked at."""

    partition: str
    storage_root: str
    ingest_address: str
    container: str
    cards: int = 0
    answers_here: bool | None = None


@dataclass(frozen=True)
class Seen:
    """When the answer was written, as the console's clock bounds it: Unix seconds of the last look without it and of the first with it."""

    not_before: float
    not_after: float


def judge(asked: Asked, answer: Answer, seen: Seen) -> list[Finding]:
    """Of an answer that has arrived: then the storage root is one."""
    return [
        _storage_fine(asked, answer),
        *_console(asked, answer),
        *_container(asked, answer),
        *_cards(asked, answer),
        *_disk(asked, answer),
        *_clock(asked, answer, seen),
    ]


def judge_exit(asked: Asked, verdict: ExitVerdict) -> list[Finding]:
    """Of a probe that ran and whose answer did not arrive."""
    found = [_storage_problem(asked, verdict.storage)]
    if not verdict.http:
        found.append(_console_problem(asked, ""))
    if not verdict.container:
        found.append(_container_problem(asked, "missing", ""))
    return found


# --- the storage root ---------------------------------------------------------------------------------------------


def _storage_fine(asked: Asked, answer: Answer) -> Finding:
    text = _(
        "{partition}: {host} sees the same storage root; jobs run as {user} (uid {uid}) and may write there"
    ).format(partition=asked.partition, host=answer.host, user=answer.user or "?", uid=answer.uid or "?")
    return Finding("probe-storage", "info", text, detail=answer.file_system)


def _storage_problem(asked: Asked, state: StorageState) -> Finding:
    root = asked.storage_root
    texts: dict[StorageState, str] = {
        "missing": _(
            "{partition}: the storage root {root} is not there on the compute node, or closed to the jobs' user"
        ),
        "other": _(
            "{partition}: on the compute node {root} is another directory, or one without what the console wrote"
        ),
        "forbidden": _("{partition}: the jobs' user may not enter the storage root {root} on the compute node"),
        "read-only": _("{partition}: the jobs' user may not write below the storage root {root} on the compute node"),
        "ok": _("{partition}: what the compute node wrote to {root} does not arrive here"),
    }
    hints: dict[StorageState, str] = {
        "missing": _(
            "mount it there at the same path and let others pass through the directories above it, or change TUNEPLANE_STORAGE_ROOT"
        ),
        "other": _("compare `findmnt -T` of the path on both sides, and mount the same export"),
        "forbidden": _("let other users pass through the directory and those above it (chmod o+x)"),
        "read-only": _("mount it read-write; where root is squashed, run the console as the user of the jobs"),
        "ok": _("compare `findmnt -T` of the path on both sides, and mount the same export"),
    }
    return Finding("probe-storage", "error", texts[state].format(partition=asked.partition, root=root), hints[state])


# --- the console --------------------------------------------------------------------------------------------------


def _console(asked: Asked, answer: Answer) -> Iterator[Finding]:
    if not answer.http_tool:
        text = _("{partition}: whether {host} reaches {address} is not known").format(
            partition=asked.partition, host=answer.host, address=asked.ingest_address
        )
        yield Finding("probe-ingest", "warning", text, _("none of curl, wget, python3 and bash is there to ask with"))
    elif answer.http_status == OK:
        text = _("{partition}: {host} reaches the console at {address}").format(
            partition=asked.partition, host=answer.host, address=asked.ingest_address
        )
        yield Finding("probe-ingest", "info", text, detail=answer.http_tool)
    elif answer.http_status:
        text = _("{partition}: at {address} {host} gets HTTP {status}, which is not this console").format(
            partition=asked.partition, host=answer.host, address=asked.ingest_address, status=answer.http_status
        )
        hint = _("check TUNEPLANE_INGEST_URL and the proxies in front of the console")
        yield Finding("probe-ingest", "error", text, hint, f"{answer.http_tool}: {answer.http_said}")
    else:
        yield _console_problem(asked, f"{answer.http_tool}: {answer.http_said}")


def _console_problem(asked: Asked, said: str) -> Finding:
    text = _("{partition}: the compute node does not reach the console at {address}").format(
        partition=asked.partition, address=asked.ingest_address
    )
    if asked.answers_here is False:
        hint = _("nor does this machine: start the console (tuneplane-server serve), then probe again")
        return Finding("probe-ingest", "error", text, hint, said)
    hint = _(
        "set TUNEPLANE_INGEST_URL to an address that compute nodes reach (TUNEPLANE_HOST=0.0.0.0), and open its port"
    )
    return Finding("probe-ingest", "error", text, hint, said)


# --- the container runtime ----------------------------------------------------------------------------------------


def _container(asked: Asked, answer: Answer) -> Iterator[Finding]:
    if answer.container_problem:
        yield _container_problem(asked, answer.container_problem, answer.container)
    else:
        text = _("{partition}: containers by {profile}: {version}").format(
            partition=asked.partition, profile=asked.container, version=answer.container or "?"
        )
        yield Finding("probe-container", "info", text)


def _container_problem(asked: Asked, problem: str, said: str) -> Finding:
    missing = {
        "apptainer": _("neither apptainer nor singularity is on the PATH of the compute node"),
        "enroot-pyxis": _("srun on the compute node does not know --container-image: the plugin pyxis is not there"),
        "oci": _("the compute node has no oci.conf, and Slurm ignores containers without it"),
    }
    texts = {
        "missing": missing.get(asked.container, asked.container),
        "no-oci-conf": missing["oci"],
        "ignored": _(
            "Slurm ran the container's command on the compute node itself: without an oci.conf it ignores containers"
        ),
        "failed": _("the registered bundle does not run on the compute node"),
    }
    text = f"{asked.partition}: {texts.get(problem, texts['missing'])}"
    hint = _("have it installed on every compute node, or choose another TUNEPLANE_SLURM_CONTAINER")
    return Finding("probe-container", "error", text, hint, said)


# --- the machine --------------------------------------------------------------------------------------------------


def _cards(asked: Asked, answer: Answer) -> Iterator[Finding]:
    if not asked.cards:
        return
    if not answer.cards:
        text = _("{partition}: Slurm gave {host} a card, and CUDA_VISIBLE_DEVICES is empty there").format(
            partition=asked.partition, host=answer.host
        )
        hint = _("check gres.conf of that node: without File= nobody is told which card it is")
        yield Finding("probe-cards", "error", text, hint)
        return
    text = ngettext(
        "{partition}: {host} shows {count} card", "{partition}: {host} shows {count} cards", asked.cards
    ).format(partition=asked.partition, host=answer.host, count=len(answer.cards.split(",")))
    yield Finding("probe-cards", "info", text, detail=answer.products or f"CUDA_VISIBLE_DEVICES={answer.cards}")


def _disk(asked: Asked, answer: Answer) -> Iterator[Finding]:
    if answer.tmp_free_gb is None:
        return
    text = _("{partition}: {free:.1f} GB free in /tmp of {host}").format(
        partition=asked.partition, free=answer.tmp_free_gb, host=answer.host
    )
    if answer.tmp_free_gb < LEAST_TMP_GB:
        hint = _("jobs unpack their lab there; make room, or let TMPDIR of jobs be a larger disk")
        yield Finding("probe-disk", "warning", text, hint)
    else:
        yield Finding("probe-disk", "info", text)


def _clock(asked: Asked, answer: Answer, seen: Seen) -> Iterator[Finding]:
    if answer.time is None:
        return
    ahead = max(0.0, answer.time - seen.not_after)
    behind = max(0.0, seen.not_before - 1 - answer.time)  # whole seconds are told
    if max(ahead, behind) <= MOST_CLOCK_SECONDS:
        return
    sentence = (
        _("{partition}: the clock of {host} is {seconds:.0f} s ahead of the console's")
        if ahead
        else _("{partition}: the clock of {host} is {seconds:.0f} s behind the console's")
    )
    text = sentence.format(partition=asked.partition, host=answer.host, seconds=max(ahead, behind))
    yield Finding("probe-clock", "warning", text, _("let both follow one time server (chrony)"))
