"""The rules of the rooms that need a syntax tree. Each takes a module and returns what breaks the rule."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable

from tests.repo.tree import imports

# Training images carry any Python from 3.9 on; these rooms may also use each other and the words of the contract.
CONTAINER_ROOMS = ("tuneplane.runner", "tuneplane.report", "tuneplane.adapters")
CONTAINER_NEIGHBOURS = (*CONTAINER_ROOMS, "tuneplane.contract.words", "tuneplane.contract.names")
# A callback for a framework, and what converts its weights, import that framework, which is there where they are used.
INTEGRATIONS = ("tuneplane.report.integrations", "tuneplane.adapters.export_weights")
FRAMEWORKS = ("transformers", "trl", "accelerate", "torch", "peft", "safetensors")
# In the standard library, but after 3.9.
TOO_NEW = ("tomllib", "compression", "annotationlib", "concurrent.interpreters", "string.templatelib")

# Modules through which time, chance, or the outside world would enter the domain. `urllib.parse` only takes texts apart.
IMPURE_MODULES = (
    "os", "io", "time", "random", "secrets", "uuid", "socket", "ssl", "subprocess", "threading", "multiprocessing",
    "asyncio", "tempfile", "shutil", "pathlib", "sqlite3", "urllib.request", "urllib.robotparser", "http", "logging",
    "signal", "contextvars",
)  # fmt: skip
IMPURE_CALLS = ("now", "utcnow", "today", "open", "input", "print", "getenv", "monotonic", "perf_counter")


def beyond_the_standard_library(name: str, tree: ast.AST) -> list[str]:
    """Imports of a room for training containers that a bare CPython 3.9 with our runner archive does not have."""
    found = []
    for imported in imports(tree, name):
        top = imported.partition(".")[0]
        if _within(imported, TOO_NEW):
            found.append(imported)
        elif top in sys.stdlib_module_names or _within(imported, CONTAINER_NEIGHBOURS):
            continue
        elif not (_within(name, INTEGRATIONS) and top in FRAMEWORKS):
            found.append(imported)
    return found


def impurities(name: str, tree: ast.AST) -> list[str]:
    """Imports and calls by which a module of the domain would see a clock, chance or the world."""
    found = [imported for imported in imports(tree, name) if _within(imported, IMPURE_MODULES)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in IMPURE_CALLS:
                found.append(f"{called}() in line {node.lineno}")
    return found


def other_features_data(name: str, tree: ast.AST) -> list[str]:
    """Imports of another feature's tables or repo: features speak through services."""
    own = ".".join(name.split(".")[:3])
    found = []
    for imported in imports(tree, name):
        parts = imported.split(".")
        of_a_feature = parts[:2] == ["tuneplane_server", "features"] and len(parts) > 3
        if of_a_feature and ".".join(parts[:3]) != own and parts[3] in ("tables", "repo"):
            found.append(imported)
    return found


def data_access_at_the_edge(name: str, tree: ast.AST) -> list[str]:
    """Imports by which an api or pages module would go past its service."""
    if name.rpartition(".")[2] not in ("api", "pages"):
        return []
    return [
        imported
        for imported in imports(tree, name)
        if _within(imported, ("sqlalchemy",)) or imported.split(".")[-2:][0] in ("tables", "repo")
    ]


def _within(name: str, modules: Iterable[str]) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)
