"""The files of a job as trees, one for each attempt."""

from __future__ import annotations

from typing import Any

from tuneplane_server.features.artifacts.service import FileEntry, Listing

_OPEN_BELOW = 8  # folders with at most this many files are shown open
_SHOWN = 200  # files of one folder that are listed; a browser with many thousands is of no use


def present(listing: Listing) -> dict[str, Any]:
    """{checkpoints, exports, trees, out_dir, truncated}; newest attempt first, its newest checkpoint first."""
    attempts = sorted({file.attempt for file in listing.files}, reverse=True)
    return {
        "checkpoints": sorted(listing.checkpoints, key=lambda one: (one.attempt, one.step), reverse=True),
        "exports": sorted(listing.exports, key=lambda one: one.attempt, reverse=True),
        "trees": [_tree(attempt, [file for file in listing.files if file.attempt == attempt]) for attempt in attempts],
        "out_dir": listing.out_dir,
        "truncated": listing.truncated,
    }


def _tree(attempt: int, files: list[FileEntry]) -> dict[str, Any]:
    root: dict[str, Any] = _folder("") | {"attempt": attempt}
    for file in sorted(files, key=lambda file: file.path):
        *parents, name = file.path.split("/")
        node: dict[str, Any] = root
        _count(node, file)
        for parent in parents:
            node = node["children"].setdefault(parent, _folder(parent))
            _count(node, file)
        node["files"].append({"name": name, "path": file.path, "size": file.size, "sha256": file.sha256})
    _settle(root)
    return root


def _folder(name: str) -> dict[str, Any]:
    return {"name": name, "children": {}, "files": [], "count": 0, "size": 0}


def _count(node: dict[str, Any], file: FileEntry) -> None:
    node["count"] += 1
    node["size"] += file.size


def _settle(node: dict[str, Any]) -> None:
    """Children as a list in order, long ones cut. Depth is bounded by the path limits of the artifact index."""
    node["folders"] = list(node.pop("children").values())
    node["open"] = node["count"] <= _OPEN_BELOW
    node["more"] = max(0, len(node["files"]) - _SHOWN)
    del node["files"][_SHOWN:]
    for folder in node["folders"]:
        _settle(folder)
