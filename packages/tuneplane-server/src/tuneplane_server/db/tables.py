"""Loads every table, so that `Base.metadata` is complete for migrations and their tests."""

from __future__ import annotations

import importlib
import pkgutil

import tuneplane_server
from tuneplane_server.db.base import Base


def load_tables() -> type[Base]:
    """Import every module named `tables` below this package; the rooms need no central list."""
    for module in pkgutil.walk_packages(tuneplane_server.__path__, "tuneplane_server."):
        if module.name.endswith(".tables") and module.name != __name__:
            importlib.import_module(module.name)
    return Base
