"""Make a lab: the directories, a `.gitignore` that keeps data and secrets out of git, and last of all the marker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuneplane import __version__
from tuneplane.contract.names import is_segment
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.contract.words import EXPERIMENTS_DIR, LAB_MARKER
from tuneplane.i18n import _
from tuneplane.lab.files import write_new
from tuneplane.lab.find import enclosing_root
from tuneplane.lab.ignore import IGNORE_FILE
from tuneplane.lab.marker import write_marker
from tuneplane.lab.plan import DATASETS_DIR, SHARED_DIRS

_IGNORED = """\
# Data stays out of git and out of packages.
/datasets/
# So do secrets, caches and what runs leave behind.
.env
.env.*
!.env.example
*.pem
*.key
__pycache__/
*.pyc
.venv/
venv/
.ipynb_checkpoints/
wandb/
/runs/
"""
_KEEP = ".gitkeep"  # git does not keep an empty directory


@dataclass(frozen=True)
class CreatedLab:
    """`written`: what was made, relative to `root`; what was there before stays as it was."""

    root: Path
    name: str
    written: tuple[str, ...]


def create_lab(root: Path, name: str | None = None) -> CreatedLab:
    """Make `root` a lab for the project `name` (default: the directory's name).

    Raises `RefusedError`: `name-invalid`, `conflict` when it is a lab already or lies inside one. The marker comes last, so that
    a lab is there completely or not at all.
    """
    root = root.absolute()
    project = name if name is not None else root.resolve().name
    _check(root, project, named=name is not None)
    written: list[str] = []
    for directory in (EXPERIMENTS_DIR, *SHARED_DIRS, DATASETS_DIR):
        (root / directory).mkdir(parents=True, exist_ok=True)
        if directory != DATASETS_DIR:
            _add(root, f"{directory}/{_KEEP}", "", written)
    _add(root, IGNORE_FILE, _IGNORED, written)
    try:
        write_marker(root, project, f"tuneplane {__version__}")
    except FileExistsError:
        raise _already(root) from None
    return CreatedLab(root, project, (*written, LAB_MARKER))


def _check(root: Path, project: str, *, named: bool) -> None:
    if not is_segment(project):
        message = _("“{name}” cannot be the name of a project").format(name=project[:80])
        hint = (
            _("use 1 to 63 of A-Z a-z 0-9 . _ -, first a letter or digit")
            if named
            else _("use 1 to 63 of A-Z a-z 0-9 . _ -, first a letter or digit (give one with --name)")
        )
        raise RefusedError([Refusal("name-invalid", message, hint, field="name")])
    if (root / LAB_MARKER).exists():
        raise _already(root)
    outer = enclosing_root(root)
    if outer is not None:
        message = _("{path} lies inside the lab {lab}").format(path=root, lab=outer)
        raise RefusedError([Refusal("conflict", message, _("choose a directory outside of it"))])


def _already(root: Path) -> RefusedError:
    message = _("{path} is a lab already").format(path=root)
    return RefusedError([Refusal("conflict", message, _("nothing was changed"), file=str(root / LAB_MARKER))])


def _add(root: Path, name: str, text: str, written: list[str]) -> None:
    try:
        write_new(root / name, text)
    except FileExistsError:
        return
    written.append(name)
