"""Find the lab a command works in: `TUNEPLANE_LAB`, else the nearest ancestor of the working directory with the marker."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.contract.words import EXPERIMENTS_DIR, LAB_MARKER
from tuneplane.i18n import _
from tuneplane.lab.marker import read_marker

LAB_VARIABLE = "TUNEPLANE_LAB"


@dataclass(frozen=True)
class Lab:
    """`root`: absolute directory of the marker. `name`: the project."""

    root: Path
    name: str

    @property
    def experiments(self) -> Path:
        return self.root / EXPERIMENTS_DIR


def find_lab(start: Path | None = None) -> Lab:
    """The lab around `start` (the working directory). Raises `RefusedError`: `lab-not-found`, or what is wrong with its marker."""
    root = find_root(start)
    return Lab(root, read_marker(root).name)


def find_root(start: Path | None = None) -> Path:
    """The root directory alone, its marker not yet read."""
    named = os.environ.get(LAB_VARIABLE)
    if named:
        root = Path(named).expanduser().absolute()
        if not _is_root(root):
            message = _("{variable} is {path}, and there is no {marker} in it").format(
                variable=LAB_VARIABLE, path=root, marker=LAB_MARKER
            )
            raise _not_found(message, _("set it to the root of a lab, or unset it"))
        return root
    here = (start or Path.cwd()).absolute()
    found = enclosing_root(here)
    if found is not None:
        return found
    raise _not_found(
        _("{path} is not inside a lab: neither it nor a directory above it has a {marker}").format(
            path=here, marker=LAB_MARKER
        ),
        _("go to your lab, or make one here with: tp init"),
    )


def enclosing_root(directory: Path) -> Path | None:
    """The nearest directory with a marker, `directory` itself included; the environment is not asked."""
    return next((path for path in (directory, *directory.parents) if _is_root(path)), None)


def _is_root(directory: Path) -> bool:
    try:
        return (directory / LAB_MARKER).exists()
    except OSError:  # a directory we may not look into is not ours
        return False


def _not_found(message: str, hint: str) -> RefusedError:
    return RefusedError([Refusal("lab-not-found", message, hint)])
