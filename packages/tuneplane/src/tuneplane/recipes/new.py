"""Make an experiment from a recipe's template."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tuneplane.contract.names import MAX_SEGMENT, is_segment
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.contract.words import EXPERIMENTS_DIR, LOCK_FILE
from tuneplane.i18n import _
from tuneplane.quoted_words import system_words
from tuneplane.recipes.index import CATALOG, Entry, home, verify
from tuneplane.recipes.lock import make_lock, render_lock
from tuneplane.recipes.template import read_template


def write_experiment(
    lab_root: Path, name: str, entry: Entry, framework_version: str | None = None, catalog: Path = CATALOG
) -> Path:
    """`experiments/<name>` with the template and its lock; the directory appears whole or not at all.

    Raises `RefusedError`: `name-invalid`, `experiment-exists`, `runtime-removed`, `catalog-mismatch` when the installed template is not
    what its digest says, or `lab-invalid` when the directory cannot be written.
    """
    if not is_segment(name):
        hint = _("use 1 to {limit} of A-Z a-z 0-9 . _ -, first a letter or digit, without “..”").format(
            limit=MAX_SEGMENT
        )
        message = _("“{name}” is not a name").format(name=name if len(name) <= 80 else f"{name[:80]}…")
        raise RefusedError([Refusal("name-invalid", message, hint, field="metadata.name")])
    manifest = entry["manifest"]
    broken = verify(manifest["name"], catalog)
    if broken:
        raise RefusedError(broken)
    directory, _files = home(manifest["name"], catalog)
    files = read_template(directory / manifest["name"] / manifest["template"])
    files[LOCK_FILE] = render_lock(make_lock(entry, framework_version))
    target = lab_root / EXPERIMENTS_DIR / name
    _refuse_existing(target, name)
    try:
        target.parent.mkdir(exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".unfinished", dir=target.parent))
    except OSError as error:
        raise _cannot_write(target, error) from None
    try:
        for relative, content in files.items():
            _write(unfinished / relative, content)
        unfinished.chmod(0o777 & ~_umask())
        _refuse_existing(target, name)
        unfinished.rename(target)
    except OSError as error:
        raise _cannot_write(target, error) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    _sync(target.parent)
    return target


def _refuse_existing(target: Path, name: str) -> None:
    if target.exists() or target.is_symlink():
        message = _("there is already an experiment “{name}”").format(name=name)
        hint = _("choose another name; nothing was changed")
        raise RefusedError([Refusal("experiment-exists", message, hint, field="metadata.name", file=str(target))])


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if path.suffix == ".sh":
        path.chmod(0o777 & ~_umask())


def _umask() -> int:
    """The process's umask; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cannot_write(target: Path, error: OSError) -> RefusedError:
    message = _("{path} cannot be written: {why}").format(path=target, why=system_words(error))
    return RefusedError([Refusal("lab-invalid", message, file=str(target))])
