"""What stays out of a package: `.gitignore` as git reads it, and what no job ever needs.

Like git, a deeper file overrides a higher one, the last matching line wins, and nothing inside an ignored directory comes back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuneplane.i18n import N_, _

IGNORE_FILE = ".gitignore"
MAX_IGNORE_BYTES = 1024 * 1024

_NEVER_DIRECTORIES = {
    ".git": N_("version control"),
    ".hg": N_("version control"),
    ".svn": N_("version control"),
    "__pycache__": N_("cache"),
    ".pytest_cache": N_("cache"),
    ".mypy_cache": N_("cache"),
    ".ruff_cache": N_("cache"),
    ".hypothesis": N_("cache"),
    ".ipynb_checkpoints": N_("cache"),
    ".cache": N_("cache"),
    ".venv": N_("virtual environment"),
    "venv": N_("virtual environment"),
    ".tox": N_("virtual environment"),
    ".nox": N_("virtual environment"),
    "node_modules": N_("installed packages"),
    ".tuneplane": N_("credentials of the client"),
}
_NEVER_FILES = {".DS_Store": N_("cache"), "Thumbs.db": N_("cache")}
_NEVER_SUFFIXES = {".pyc": N_("cache"), ".pyo": N_("cache")}


def never_packed(path: Path, is_directory: bool) -> str:
    """Why a file or directory of this name is never packed, in the reader's language; empty when it may be."""
    if is_directory:
        reason = _NEVER_DIRECTORIES.get(path.name)
        if reason is None and (path / "pyvenv.cfg").is_file():
            reason = N_("virtual environment")
    else:
        reason = _NEVER_FILES.get(path.name) or _NEVER_SUFFIXES.get(path.suffix)
    return _(reason) if reason else ""


class IgnoreRules:
    """The `.gitignore` files that apply to one directory. `below()` gives the rules of a directory inside it."""

    def __init__(self, specs: tuple[tuple[Path, Any], ...] = ()) -> None:
        self._specs = specs  # (directory of the file, compiled patterns), from the top down

    @classmethod
    def at(cls, root: Path) -> IgnoreRules:
        """The rules of `root`, with those above it up to the root of its git repository.

        Where a rule above hides the lab itself, or a folder on the way to it, it says nothing of the lab's own files:
        the lab was made there on purpose, and the rules from there on speak for it.
        """
        chain = [root]
        for directory in (root, *root.parents):
            chain.append(directory)
            if (directory / ".git").exists():
                break
        else:
            chain = [root]
        rules = cls()
        for directory in dict.fromkeys(reversed(chain)):
            if rules.ignores(directory, is_directory=True):
                rules = cls()
            rules = rules.below(directory)
        return rules

    def below(self, directory: Path) -> IgnoreRules:
        spec = _read(directory / IGNORE_FILE)
        return self if spec is None else IgnoreRules((*self._specs, (directory, spec)))

    def ignores(self, path: Path, is_directory: bool) -> bool:
        for directory, spec in reversed(self._specs):
            if not path.is_relative_to(directory):
                continue
            name = path.relative_to(directory).as_posix() + ("/" if is_directory else "")
            verdict = spec.check_file(name).include
            if verdict is not None:
                return verdict
        return False


def _read(path: Path) -> Any | None:
    from pathspec import GitIgnoreSpec
    from pathspec.patterns.gitignore import GitIgnorePatternError

    try:
        with path.open("rb") as file:
            text = file.read(MAX_IGNORE_BYTES).decode("utf-8", "replace")
    except OSError:  # none there, or not ours to read: git skips it too
        return None
    lines = text.splitlines()
    try:
        return GitIgnoreSpec.from_lines(lines)
    except (GitIgnorePatternError, ValueError):
        return GitIgnoreSpec.from_lines([line for line in lines if _compiles(line)])


def _compiles(line: str) -> bool:
    """Git ignores a line it cannot read; so do we, and the other lines stand."""
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
