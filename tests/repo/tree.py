"""The files of the repository and the syntax trees of its packages, for the rules in this folder."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.services.session import ROOT

PACKAGES = {
    "tuneplane": ROOT / "packages/tuneplane/src/tuneplane",
    "tuneplane_node": ROOT / "packages/tuneplane-node/src/tuneplane_node",
    "tuneplane_server": ROOT / "packages/tuneplane-server/src/tuneplane_server",
}


@cache
def committed_files() -> tuple[Path, ...]:
    """What git knows or would take: tracked files and new ones that are not ignored."""
    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True, cwd=ROOT, timeout=60,
    ).stdout.decode()  # fmt: skip
    return tuple(path for name in listing.split("\0") if name and (path := ROOT / name).is_file())


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def modules(package: str, room: str = "") -> Iterator[tuple[str, ast.Module]]:
    """(dotted name, syntax tree) of each module of a room; recipe templates are users' files and not among them."""
    base = PACKAGES[package]
    target = base / room
    for path in [target] if target.is_file() else sorted(target.rglob("*.py")):
        if "template" in path.parts:
            continue
        parts = path.relative_to(base.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield name, ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(tree: ast.AST, module: str) -> Iterator[str]:
    """Every dotted name imported when the code runs, wherever in the module; `from a import b` counts as `a.b`."""
    for node in _running(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split(".")[: -node.level]
                base = ".".join([*above, base] if base else above)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below, but for what only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")):
            yield child
            yield from _running(child)
