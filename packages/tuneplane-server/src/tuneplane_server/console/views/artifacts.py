"""The files of a job as trees, one for each attempt."""

from __future__ import annotations

from typing import Any

_OPEN_BELOW = 8  # folders with at most this many files are shown open


def present(answer: dict[str, Any]) -> dict[str, Any]:
    """{checkpoints, trees, out_dir} from the API's artifact list; checkpoints newest first."""
    attempts = sorted({file["attempt"] for file in answer["files"]}, reverse=True)
    return {
        "checkpoints": sorted(
            answer["checkpoints"], key=lambda checkpoint: (checkpoint["attempt"], checkpoint["step"]), reverse=True
        ),
        "trees": [_tree([file for file in answer["files"] if file["attempt"] == attempt]) for attempt in attempts],
        "out_dir": answer.get("out_dir"),
    }


def _tree(files: list[dict[str, Any]]) -> dict[str, Any]:
    root = _folder("")
    root["attempt"] = files[0]["attempt"]
    for file in sorted(files, key=lambda file: file["path"]):
        *parents, name = file["path"].split("/")
        node = root
        for parent in parents:
            node["count"] += 1
            node["size"] += file["size"]
            node = node["children"].setdefault(parent, _folder(parent))
        node["count"] += 1
        node["size"] += file["size"]
        node["files"].append(file | {"name": name})
    _settle(root)
    return root


def _folder(name: str) -> dict[str, Any]:
    return {"name": name, "children": {}, "files": [], "count": 0, "size": 0}


def _settle(node: dict[str, Any]) -> None:
    """Children as a list in order. Depth is bounded by the path limits of the artifact index."""
    node["folders"] = list(node.pop("children").values())
    node["open"] = node["count"] <= _OPEN_BELOW
    for folder in node["folders"]:
        _settle(folder)
