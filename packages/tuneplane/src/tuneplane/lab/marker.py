"""`tuneplane.yaml`, the file that marks the root of a lab: read, checked, written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneplane.contract.names import is_segment
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.contract.words import LAB_MARKER, PROJECT_API_VERSION
from tuneplane.i18n import _
from tuneplane.lab.files import write_new
from tuneplane.lab.yamlfile import Document, read_yaml


@dataclass(frozen=True)
class Marker:
    """`name` is the project that the console files the lab's jobs under; `created_by` the client that made the lab."""

    name: str
    created_by: str


def read_marker(root: Path) -> Marker:
    """The marker of the lab at `root`. Raises `RefusedError` with file and line when it is broken or has no name."""
    path = root / LAB_MARKER
    document = read_yaml(path)
    if not isinstance(document.value, dict):
        raise RefusedError([_refusal(path, 1, _("the file holds no keys"), "")])
    refusals = [*_check_version(document), *_check_name(document)]
    if refusals:
        raise RefusedError(refusals)
    return Marker(document.value["name"], str(document.value.get("created_by") or ""))


def write_marker(root: Path, name: str, created_by: str) -> Path:
    """Create the marker; raises `FileExistsError` when there is one. `name` must be a segment, checked before."""
    path = root / LAB_MARKER
    write_new(path, f"apiVersion: {PROJECT_API_VERSION}\nname: {_quoted(name)}\ncreated_by: {_quoted(created_by)}\n")
    return path


def _check_version(document: Document) -> list[Refusal]:
    found = document.value.get("apiVersion")
    if found == PROJECT_API_VERSION:
        return []
    line = document.lines.get("apiVersion", 1)
    message = (
        _("apiVersion is missing")
        if found is None
        else _("apiVersion {found} is not one this client knows").format(found=_shown(found))
    )
    return [_refusal(document.path, line, message, "apiVersion")]


def _check_name(document: Document) -> list[Refusal]:
    name = document.value.get("name")
    line = document.lines.get("name", 1)
    if name is None or name == "":
        return [_refusal(document.path, line, _("the project has no name"), "name")]
    if isinstance(name, str) and is_segment(name):
        return []
    message = _("{name} is not a project name: 1 to 63 of A-Z a-z 0-9 . _ -, first a letter or digit")
    return [_refusal(document.path, line, message.format(name=_shown(name)), "name")]


def _refusal(path: Path, line: int, message: str, field: str) -> Refusal:
    hint = _("a marker reads: apiVersion: {version}, name: <project>").format(version=PROJECT_API_VERSION)
    return Refusal("lab-invalid", message, hint, field=field, file=str(path), line=line)


def _shown(value: Any) -> str:
    text = str(value)
    return f"“{text[:60]}…”" if len(text) > 60 else f"“{text}”"


def _quoted(text: str) -> str:
    """A segment may look like a number or a date (`2024-01-01`); quoted, it stays the text it is."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
