"""What is on disk before and after a submit, so that a launch that was cut off anywhere can be gone on with.

`slurm/intent-<n>.json` is the n-th try to submit an attempt: it is there before Slurm is asked, and holds Slurm's answer after. A
file is made once and by one: of two consoles that launch the same attempt only one makes the n-th. `stop.json` has the time of
the first SIGTERM, `kill.json` that of the end of its grace, `over.json` that the job was proved to be over. All functions here block: they are called in a thread.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

MOST_BYTES = 64 * 1024
KEPT_TRIES = 64  # a run may wait for days for a Slurm that takes no more jobs
STOP_FILE, KILL_FILE, OVER_FILE = "stop.json", "kill.json", "over.json"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME = re.compile(r"intent-([1-9][0-9]{0,4})\.json", re.ASCII)


class _NoJsonError(OSError):
    pass


type Outcome = Literal["unknown", "submitted", "not-submitted"]


@dataclass(frozen=True)
class Intent:
    """One try. `at`: Unix seconds before Slurm was asked; `first`: that of the first try. `outcome`: `unknown` until an answer is
    written. `nodes`: the plan's names of the machines by rank. `gpus`: asked for on all of them. `warning`: how many seconds before the time limit
    Slurm tells the job to end. `said`: why it was not submitted.
    """

    n: int
    at: float
    first: float
    nodes: tuple[str, ...]
    gpus: int
    runtime: str
    warning: int | None = None
    outcome: Outcome = "unknown"
    slurm_id: int | None = None
    said: str = ""

    def with_id(self, slurm_id: int) -> Intent:
        """As if Slurm's answer had been written."""
        return replace(self, outcome="submitted", slurm_id=slurm_id)


def read_intent(directory: Path) -> Intent | None:
    """The last try; None when there was none. Raises OSError when that cannot be known, or what is there is no intent."""
    numbers = _numbers(directory)
    return _read(directory, max(numbers)) if numbers else None


def begin(directory: Path, intent: Intent) -> bool:
    """Write a new try durably. False: another console has made this one. Also when its file is gone again, as old tries' are: the
    last one never is, so whoever slept through all that were kept sees it beside what it has made itself."""
    draft = _draft(directory, asdict(intent))
    file = _file(directory, intent.n)
    try:
        made = _placed(draft, file)
        if not made and not _is_ours(directory, file):
            _put_aside(file)
            made = _placed(draft, file)
    finally:
        draft.unlink()
    if made and max(_numbers(directory), default=0) > intent.n:
        file.unlink(missing_ok=True)
        made = False
    if made:
        _drop_old(directory, intent.n - KEPT_TRIES)
        _sync(directory)
    return made


def answer(directory: Path, intent: Intent, outcome: Outcome, slurm_id: int | None = None, said: str = "") -> Intent:
    """The try with its answer, which is written over it."""
    known = replace(intent, outcome=outcome, slurm_id=slurm_id, said=said[:1000])
    _draft(directory, asdict(known)).replace(_file(directory, intent.n))
    _sync(directory)
    return known


def first_time(directory: Path, file: str, now: float) -> float:
    """The time in one of these files, which is written if it is not there: the first one counts."""
    known = time_of(directory, file)
    if known is not None:
        return known
    draft = _draft(directory, {"at": now})
    try:
        made = _placed(draft, directory / file)
        if not made and time_of(directory, file) is None:
            _put_aside(directory / file)
            made = _placed(draft, directory / file)
    finally:
        draft.unlink()
    if not made:
        return time_of(directory, file) or now
    _sync(directory)
    return now


def time_of(directory: Path, file: str) -> float | None:
    """None when it is not there: what somebody else put there, or what holds no time, says nothing. Raises OSError when that
    cannot be known."""
    try:
        if not _is_ours(directory, directory / file):
            return None
        at = _load(directory / file).get("at")
    except (FileNotFoundError, _NoJsonError):
        return None
    return float(at) if isinstance(at, int | float) and math.isfinite(at) else None


def make_directory(directory: Path) -> None:
    """The batch script writes there, as the Slurm user; what others wrote it must not remove."""
    directory.mkdir(exist_ok=True)
    directory.chmod(0o1777)


def write_file(directory: Path, name: str, text: str) -> None:
    """Something for people and for the batch script; `name` may have directories in it. Raises OSError, also when one of these is
    a link or somebody else's: what lies there would be written as us, wherever it leads."""
    *inner, last = Path(name).parts
    fd = os.open(directory, _DIRECTORY)
    try:
        for at, part in enumerate(inner):
            outer, fd = fd, _inner(fd, part, directory.joinpath(*inner[: at + 1]))
            os.close(outer)
        _write(fd, last, text)
    finally:
        os.close(fd)


def find_directory(root: Path, job_id: str, attempt: int) -> Path | None:
    """The `slurm` directory of an attempt whose owner and project are not known; None when it has none. Raises OSError when the
    storage root is not there, so that nothing is known."""
    projects = root / "projects"
    if not projects.is_dir():
        raise FileNotFoundError(f"{projects} is not there: the storage root is not mounted")
    found = projects.glob(f"*/*/jobs/{job_id}/attempts/{attempt}/slurm")
    return next((path for path in found if path.is_dir()), None)


def tail(file: Path, most: int) -> str:
    """The end of a file; empty when it cannot be read."""
    try:
        with _open(file) as opened:
            size = opened.seek(0, os.SEEK_END)
            opened.seek(max(0, size - most))
            return opened.read(most).decode("utf-8", "replace")
    except OSError:
        return ""


def _inner(outer: int, part: str, path: Path) -> int:
    """A directory in the open one, made where there is none."""
    with suppress(FileExistsError):
        os.mkdir(part, 0o755, dir_fd=outer)
    makers = _makers(os.fstat(outer))
    try:
        fd = os.open(part, _DIRECTORY, dir_fd=outer)
    except OSError as error:
        raise OSError(f"{path} is no directory ({error.strerror}): remove it") from None
    if os.fstat(fd).st_uid not in makers:
        os.close(fd)
        raise OSError(f"{path} was not made by the console: remove it")
    return fd


def _write(fd: int, name: str, text: str) -> None:
    draft = f".{name}.{secrets.token_hex(4)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(draft, flags, 0o644, dir_fd=fd), "w", encoding="utf-8") as opened:
            opened.write(text)
            os.fchmod(opened.fileno(), 0o644)
        os.replace(draft, name, src_dir_fd=fd, dst_dir_fd=fd)
    except OSError:
        with suppress(OSError):
            os.unlink(draft, dir_fd=fd)
        raise


def _is_ours(directory: Path, file: Path) -> bool:
    """Whether a console made it. Raises FileNotFoundError."""
    found = file.lstat()
    return stat.S_ISREG(found.st_mode) and found.st_uid in _makers(directory.stat())


def _makers(directory: os.stat_result) -> frozenset[int]:
    """Whose files there are a console's. The directory's owner is what root is called where the storage root squashes it."""
    return frozenset({os.geteuid(), 0, directory.st_uid})


def _numbers(directory: Path) -> list[int]:
    """Of the tries that consoles made: the Slurm user may write here as well, and what it wrote says nothing."""
    try:
        makers = _makers(directory.stat())
        with os.scandir(directory) as entries:
            found = [(entry, match) for entry in entries if (match := _NAME.fullmatch(entry.name)) is not None]
    except FileNotFoundError:
        return []
    return [int(match[1]) for entry, match in found if entry.stat(follow_symlinks=False).st_uid in makers]


def _drop_old(directory: Path, newest: int) -> None:
    for n in _numbers(directory):
        if n <= newest:
            _file(directory, n).unlink(missing_ok=True)


def _read(directory: Path, n: int) -> Intent:
    found = _load(_file(directory, n))
    try:
        return Intent(
            n=n,
            at=float(found["at"]),
            first=float(found["first"]),
            nodes=tuple(str(name) for name in found["nodes"]),
            gpus=int(found["gpus"]),
            runtime=str(found["runtime"]),
            warning=None if found.get("warning") is None else int(found["warning"]),
            outcome=_outcome(found),
            slurm_id=None if found.get("slurm_id") is None else int(found["slurm_id"]),
            said=str(found.get("said", "")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise OSError(f"{_file(directory, n)} is no intent of a launch: {error!r}") from None


def _outcome(found: dict[str, Any]) -> Outcome:
    if found.get("slurm_id") is not None:
        return "submitted"
    return "not-submitted" if found.get("outcome") == "not-submitted" else "unknown"


def _load(file: Path) -> dict[str, Any]:
    with _open(file) as opened:
        text = opened.read(MOST_BYTES)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _NoJsonError(f"{file} is not JSON") from None
    if not isinstance(found, dict):
        raise _NoJsonError(f"{file} is not a JSON object")
    return found


def _open(file: Path) -> BinaryIO:
    """A regular file: whoever puts a pipe there must not hold us up."""
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{file} is no regular file")
    return os.fdopen(fd, "rb")


def _draft(directory: Path, content: dict[str, Any]) -> Path:
    """Written and synced, under a name that nobody looks for."""
    draft = directory / f".draft-{os.getpid()}-{secrets.token_hex(4)}"
    with draft.open("x", encoding="utf-8") as opened:
        json.dump(content, opened)
        opened.write("\n")
        opened.flush()
        os.fsync(opened.fileno())
    return draft


def _placed(draft: Path, file: Path) -> bool:
    """Whether it has that name now. False: something else has it."""
    try:
        os.link(draft, file)
    except FileExistsError:
        return False
    return True


def _put_aside(file: Path) -> None:
    """What only has the name of one of our files. In a sticky directory that is ours we may rename whatever it is."""
    with suppress(OSError):
        file.rename(file.with_name(f".not-ours-{secrets.token_hex(4)}"))


def _sync(directory: Path) -> None:
    """What was renamed or linked there survives a crash of the machine, too."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _file(directory: Path, n: int) -> Path:
    return directory / f"intent-{n}.json"
