"""The files of an organisation's recipes on their way between directories and consoles: names checked before they become paths."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.recipes.organisation import MAX_BYTES, MAX_FILES, contents


def read_files(directory: Path) -> dict[str, bytes]:
    """Path below the directory -> content, of what its catalog is made of. Raises `RefusedError` (`recipe-invalid`, `package-secret`)."""
    files = {name: (directory / name).read_bytes() for name in contents(directory)}
    refusals = [refusal for name, content in files.items() for refusal in _secrets(directory / name, content)]
    if refusals:
        raise RefusedError(refusals)
    return files


def _secrets(path: Path, content: bytes) -> list[Refusal]:
    """What must not leave the machine, by the rules of a lab's package."""
    from tuneplane.lab.secrets import SecretScanner, secret_by_name

    hint = _("take it out; a false alarm: put tuneplane:allow-secret on that line")
    if secret_by_name(path.name):
        message = _("{name} is a file for secrets").format(name=path.name)
        return [Refusal("package-secret", message, hint, file=str(path))]
    scanner = SecretScanner()
    scanner.feed(content)
    scanner.close()
    return [
        Refusal(
            "package-secret",
            _("{name} holds what looks like {what}").format(name=path.name, what=finding.what),
            hint,
            file=str(path),
            line=finding.line,
        )
        for finding in scanner.findings
    ]


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Make the directory, which must not be there, with these files: whole or not at all. Raises `RefusedError` for names that are no
    paths of a recipe's files."""
    check_names(files)
    directory.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        for name, content in files.items():
            _write(unfinished / name, content)
        unfinished.chmod(0o755)
        unfinished.rename(directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def check_names(files: Mapping[str, bytes]) -> None:
    """Raises `RefusedError` for too much, and for a path that leads out of the directory or is that of a directory too."""
    size = sum(len(content) for content in files.values())
    if len(files) > MAX_FILES or size > MAX_BYTES:
        message = _("these are more than {files} files or {size} MB").format(files=MAX_FILES, size=MAX_BYTES >> 20)
        raise RefusedError([Refusal("recipe-invalid", message, field="files")])
    folders = {str(folder) for name in files for folder in PurePosixPath(name).parents}
    wrong = [name for name in files if not _is_sound(name) or name in folders]
    if wrong:
        message = _("“{name}” cannot be the path of a recipe's file").format(name=wrong[0][:80])
        hint = _("a path is <framework>/<method>/recipe.yaml, <framework>/<method>/template/… or the like")
        raise RefusedError([Refusal("recipe-invalid", message, hint, field="files")])


def _is_sound(name: str) -> bool:
    parts = PurePosixPath(name).parts
    plain = name == "/".join(parts) and 2 <= len(parts) <= 12 and len(name) <= 400 and name.isprintable()
    return plain and all(part not in (".", "..") and not part.startswith("/") and len(part) <= 200 for part in parts)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
