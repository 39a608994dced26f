"""What a package will hold: `tuneplane.yaml`, `experiments/<name>/`, `common/`, `configs/`, less what is ignored.

Planning reads names and sizes only, so that a lab with a file of many gigabytes is refused before a byte of it is read.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.contract.words import CONFIG_FILE, EXPERIMENTS_DIR, LAB_MARKER, LOCK_FILE
from tuneplane.i18n import _
from tuneplane.lab.experiments import Experiment
from tuneplane.lab.find import Lab
from tuneplane.lab.ignore import IgnoreRules, never_packed
from tuneplane.lab.secrets import secret_by_name, secret_directory
from tuneplane.quoted_words import system_words

SHARED_DIRS = ("common", "configs")
DATASETS_DIR = "datasets"
LIMIT_VARIABLE = "TUNEPLANE_MAX_PACKAGE_MB"
DEFAULT_LIMIT_MB = 200
MAX_FILES = 20_000

# Files the platform itself reads: a .gitignore that hides one of them would only make the job fail later.
_ALWAYS = {CONFIG_FILE, LOCK_FILE, "train.py", "train.sh", "run.py", "main.py", "eval.py"}


@dataclass(frozen=True)
class PackedFile:
    """`name` is the path in the package (POSIX); `identity` is (device, inode, mtime in ns) when the plan was made."""

    name: str
    path: Path
    size: int
    executable: bool
    identity: tuple[int, int, int]


@dataclass(frozen=True)
class Excluded:
    """`reason` is in the reader's language."""

    name: str
    reason: str


@dataclass(frozen=True)
class PackagePlan:
    """`files` sorted by name; `size` the sum of their sizes in bytes; `excluded` what was left out and why."""

    files: tuple[PackedFile, ...]
    excluded: tuple[Excluded, ...]
    size: int


def size_limit() -> int:
    """The most bytes a package may hold, before compression."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    if text and not (text.isascii() and text.isdigit() and int(text) > 0):
        message = _("{variable} is “{value}”, which is no whole number of megabytes")
        raise RefusedError([Refusal("limit-invalid", message.format(variable=LIMIT_VARIABLE, value=text))])
    return (int(text) if text else DEFAULT_LIMIT_MB) * 1024 * 1024


def plan_package(lab: Lab, experiment: Experiment, limit: int | None = None) -> PackagePlan:
    """The plan for one experiment. Raises `RefusedError` with everything that may not be sent: `package-secret`, `package-link`,
    `package-too-large` (`limit` in bytes, default `size_limit()`), `file-missing` for what cannot be read."""
    walk = _Walk(lab.root.resolve())
    walk.run(experiment.name)
    files = tuple(sorted(walk.files, key=lambda file: file.name))
    size = sum(file.size for file in files)
    most = size_limit() if limit is None else limit
    refusals = walk.refusals
    if size > most:
        refusals.append(_too_large(files, size, most))
    if refusals:
        raise RefusedError(refusals)
    return PackagePlan(files, tuple(sorted(walk.excluded, key=lambda item: item.name)), size)


class _Walk:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: list[PackedFile] = []
        self.excluded: list[Excluded] = []
        self.refusals: list[Refusal] = []

    def run(self, experiment: str) -> None:
        top = IgnoreRules.at(self.root)
        self._entry(self.root / LAB_MARKER, LAB_MARKER, top, (), keep=True)
        experiments = self.root / EXPERIMENTS_DIR
        self._entry(experiments / experiment, f"{EXPERIMENTS_DIR}/{experiment}", top.below(experiments), (), keep=True)
        for name in SHARED_DIRS:
            if os.path.lexists(self.root / name):
                self._entry(self.root / name, name, top, ())

    def _entry(self, path: Path, name: str, rules: IgnoreRules, above: tuple[Path, ...], keep: bool = False) -> None:
        """Take one file or directory; `above` are the real directories it lies in, to see links that go in a circle."""
        real = self._resolve(path, name)
        if real is None:
            return
        try:
            info = real.stat()
        except OSError as error:
            self._refuse("file-missing", name, _("cannot be read: {why}").format(why=system_words(error)))
            return
        is_directory = stat.S_ISDIR(info.st_mode)
        reason = self._exclusion(path, real, rules, is_directory, keep)
        if reason:
            self.excluded.append(Excluded(name + "/" if is_directory else name, reason))
        elif is_directory:
            self._directory(real, name, rules.below(real), above)
        elif not stat.S_ISREG(info.st_mode):
            self.excluded.append(Excluded(name, _("neither a file nor a directory")))
        elif self._may_leave(name, real):
            identity = (info.st_dev, info.st_ino, info.st_mtime_ns)
            self.files.append(PackedFile(name, real, info.st_size, bool(info.st_mode & stat.S_IXUSR), identity))
            if len(self.files) > MAX_FILES:
                raise RefusedError([*self.refusals, _too_many()])

    def _resolve(self, path: Path, name: str) -> Path | None:
        """What a path stands for; links are followed inside the lab only, and the package holds what they point to."""
        if not path.is_symlink():
            return path
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):  # RuntimeError: a loop of links, before CPython 3.13
            self.excluded.append(Excluded(name, _("a link that leads nowhere")))
            return None
        if real.is_relative_to(self.root):
            return real
        self._refuse(
            "package-link",
            name,
            _("the link {name} leads out of the lab").format(name=name),
            _("put a copy into the lab, or add the link to .gitignore"),
        )
        return None

    def _exclusion(self, path: Path, real: Path, rules: IgnoreRules, is_directory: bool, keep: bool) -> str:
        if real.is_relative_to(self.root / DATASETS_DIR):
            return _("datasets are never packed")
        reason = never_packed(path, is_directory) or never_packed(real, is_directory)
        if reason or keep:
            return reason
        return _("ignored by .gitignore") if rules.ignores(path, is_directory) else ""

    def _directory(self, real: Path, name: str, rules: IgnoreRules, above: tuple[Path, ...]) -> None:
        if real in above:
            self._refuse("package-link", name, _("the link {name} goes in a circle").format(name=name))
            return
        if secret_directory(real.name):
            self._refuse_secret(name)
            return
        try:
            entries = sorted(os.listdir(real))  # noqa: PTH208 - names, not paths
        except OSError as error:
            self._refuse("file-missing", name, _("cannot be read: {why}").format(why=system_words(error)))
            return
        top = name.count("/") == 1 and name.startswith(f"{EXPERIMENTS_DIR}/")
        for entry in entries:
            self._entry(real / entry, f"{name}/{entry}", rules, (*above, real), keep=top and entry in _ALWAYS)

    def _may_leave(self, name: str, real: Path) -> bool:
        if not name.isprintable():
            shown = name.encode("utf-8", "backslashreplace").decode("utf-8")
            self._refuse("name-invalid", shown, _("the file name holds characters that cannot be shown"))
            return False
        if secret_by_name(name.rsplit("/", 1)[-1]) or secret_by_name(real.name):
            self._refuse_secret(name)
            return False
        return True

    def _refuse_secret(self, name: str) -> None:
        self._refuse(
            "package-secret",
            name,
            _("{name} looks like a file of secrets").format(name=name),
            _("add it to .gitignore; a job gets its secrets by name, not by file"),
        )

    def _refuse(self, code: str, name: str, message: str, hint: str = "") -> None:
        self.refusals.append(Refusal(code, message, hint, file=str(self.root / name)))


def _too_large(files: tuple[PackedFile, ...], size: int, limit: int) -> Refusal:
    largest = sorted(files, key=lambda file: -file.size)[:3]
    listing = ", ".join(f"{file.name} ({show_size(file.size)})" for file in largest)
    return Refusal(
        "package-too-large",
        _("the package would hold {size}, the limit is {limit}").format(size=show_size(size), limit=show_size(limit)),
        _("largest: {files}. Move data to datasets/ or add it to .gitignore; {variable} raises the limit").format(
            files=listing, variable=LIMIT_VARIABLE
        ),
    )


def _too_many() -> Refusal:
    return Refusal(
        "package-too-large",
        _("the package would hold more than {limit} files").format(limit=MAX_FILES),
        _("add what the job does not need to .gitignore"),
    )


def show_size(size: int) -> str:
    """Bytes for people: `640 B`, `1.5 MB`."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
