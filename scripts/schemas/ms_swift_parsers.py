"""ms-swift's own argument parsers, on a machine without CUDA. Used by record_ms_swift.py and tests/catalog/ms_swift."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from typing import Any

_ABSENT = "mcore_bridge"


class _Absent(types.ModuleType):
    """A module that cannot be imported here: any name in it is an empty class, which nothing calls while arguments are parsed."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []  # what makes a module a package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers for `mcore_bridge` alone: importing the real one imports transformer-engine, which needs CUDA."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".")[0] != _ABSENT:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        return None


def argument_classes() -> dict[str, Any]:
    """Entry point (`sft`, `rlhf`, `megatron-sft`, `megatron-rlhf`) -> the class whose fields are its flags."""
    sys.meta_path.insert(0, _Finder())
    from swift.megatron.pipelines.train.rlhf import MegatronRLHF
    from swift.megatron.pipelines.train.sft import MegatronSft
    from swift.pipelines.train.rlhf import SwiftRLHF
    from swift.pipelines.train.sft import SwiftSft

    pipelines = {"sft": SwiftSft, "rlhf": SwiftRLHF, "megatron-sft": MegatronSft, "megatron-rlhf": MegatronRLHF}
    return {name: pipeline.args_class for name, pipeline in pipelines.items()}


def make_parser(cls: Any) -> Any:
    """The parser as `swift/utils/utils.py`, parse_args, makes it."""
    from swift.utils.utils import _patch_get_type_hints
    from transformers import HfArgumentParser

    with _patch_get_type_hints():
        return HfArgumentParser([cls])
