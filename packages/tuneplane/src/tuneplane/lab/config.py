"""`config.yaml` of an experiment: `defaults` inherited, every key remembered with the file and line it came from.

`defaults: [path, …]` names fragments, relative to the file that names them or else to the root of the lab. They are merged left to
right, deeply, and the file's own keys last; lists and scalars replace. A mapping with `_override_: true` replaces instead of merging.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.contract.words import CONFIG_FILE
from tuneplane.i18n import _
from tuneplane.lab.shared_keys import SharedKeys, split_shared
from tuneplane.lab.yamlfile import Document, child_path, read_partly

DEFAULTS_KEY = "defaults"
OVERRIDE_KEY = "_override_"
MAX_FILES = 100

Positions = dict[str, tuple[str, int]]


@dataclass(frozen=True)
class ResolvedConfig:
    """`values`: the framework's own config. `shared`: the cross-framework keys, taken out of it. `positions`: path of a key
    (`a.b[0]`) -> (file, 1-based line) where its value was last set. `sources`: every file read, in the order of merging."""

    values: dict[str, Any]
    shared: SharedKeys
    positions: Positions
    sources: tuple[Path, ...]


@dataclass
class _Layer:
    """A mapping and where its keys stand."""

    values: dict[str, Any] = field(default_factory=dict)
    positions: Positions = field(default_factory=dict)


def load_config(experiment_dir: Path, lab_root: Path | None = None) -> ResolvedConfig:
    """Resolve `config.yaml` in `experiment_dir`. `lab_root` bounds what `defaults` may name (the directory two above when not given).

    Raises `RefusedError` with every problem: `file-missing`, `yaml-invalid`, `config-invalid`, `config-cycle`, `number-not-finite`, …
    """
    found, refusals = resolve_config(experiment_dir, lab_root)
    if found is None or refusals:
        raise RefusedError(refusals)
    return found


def resolve_config(experiment_dir: Path, lab_root: Path | None = None) -> tuple[ResolvedConfig | None, list[Refusal]]:
    """Like `load_config`, with the problems beside the config, so that the rest of it can be checked too: values that cannot be carried
    are left out of it. None when a file as a whole is broken or missing."""
    root = (lab_root or experiment_dir.absolute().parent.parent).resolve()
    loader = _Loader(root)
    try:
        layer = loader.load(experiment_dir / CONFIG_FILE, ())
    except RefusedError as error:
        return None, [*loader.refusals, *error.refusals]
    refusals = loader.refusals
    if len(refusals) > loader.values_refused:
        return None, refusals
    _drop_override_marks(layer, refusals)
    values, shared, wrong = split_shared(layer.values, layer.positions)
    return ResolvedConfig(values, shared, layer.positions, tuple(loader.sources)), [*refusals, *wrong]


class _Loader:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.refusals: list[Refusal] = []
        self.values_refused = 0  # how many of the refusals are about single values
        self.sources: list[Path] = []

    def load(self, path: Path, parents: tuple[Path, ...]) -> _Layer:
        """The file with everything it inherits. Problems are collected; a broken file counts as empty."""
        if len(self.sources) >= MAX_FILES:
            raise RefusedError([_invalid(path, 0, _("more than {limit} files inherited").format(limit=MAX_FILES), "")])
        try:
            document = read_partly(path)
        except RefusedError as error:
            self.refusals.extend(error.refusals)
            return _Layer()
        self.refusals.extend(document.refusals)
        self.values_refused += len(document.refusals)
        if document.value is not None and not isinstance(document.value, dict):
            self.refusals.append(_invalid(path, 1, _("the file must hold keys and values"), ""))
            return _Layer()
        own = _Layer(dict(document.value or {}), {key: (str(path), line) for key, line in document.lines.items()})
        named = own.values.pop(DEFAULTS_KEY, None)
        result = _Layer()
        for index, entry in enumerate(self._entries(document, named)):
            found = self._find(document, entry, index)
            if found is None:
                continue
            if found in (*parents, path.resolve()):
                self.refusals.append(self._cycle(document, index, found, (*parents, path.resolve())))
                continue
            _merge(result, self.load(found, (*parents, path.resolve())))
        self.sources.append(path)
        _merge(result, own)
        return result

    def _entries(self, document: Document, named: Any) -> list[str]:
        if named is None:
            return []
        entries = [named] if isinstance(named, str) else named
        if isinstance(entries, list) and all(isinstance(item, str) and item for item in entries):
            return entries
        line = document.lines[DEFAULTS_KEY]
        self.refusals.append(_invalid(document.path, line, _("defaults must be a list of paths"), DEFAULTS_KEY))
        return []

    def _find(self, document: Document, entry: str, index: int) -> Path | None:
        line = document.lines.get(child_path(DEFAULTS_KEY, index), document.lines[DEFAULTS_KEY])
        if "\0" in entry:
            self.refusals.append(_invalid(document.path, line, _("the path holds a NUL"), DEFAULTS_KEY))
            return None
        candidates = [(base / entry).resolve() for base in (document.path.parent, self.root)]
        inside = [path for path in candidates if path.is_relative_to(self.root)]
        for path in inside:
            if path.is_file():
                return path
        if not inside or any(path.is_file() for path in candidates):
            message = _("“{entry}” lies outside the lab").format(entry=entry)
            self.refusals.append(_invalid(document.path, line, message, DEFAULTS_KEY))
            return None
        tried = _(" and ").join(str(path.relative_to(self.root)) for path in dict.fromkeys(inside))
        self.refusals.append(
            Refusal(
                "file-missing",
                _("there is no file “{entry}” to inherit from").format(entry=entry),
                _("looked for {paths} in the lab").format(paths=tried),
                field=DEFAULTS_KEY,
                file=str(document.path),
                line=line,
            )
        )
        return None

    def _cycle(self, document: Document, index: int, found: Path, chain: tuple[Path, ...]) -> Refusal:
        names = [str(path.relative_to(self.root)) for path in (*chain[chain.index(found) :], found)]
        return Refusal(
            "config-cycle",
            _("defaults go in a circle: {chain}").format(chain=" → ".join(names)),
            _("take one of these files out of the defaults"),
            field=DEFAULTS_KEY,
            file=str(document.path),
            line=document.lines.get(child_path(DEFAULTS_KEY, index), document.lines[DEFAULTS_KEY]),
        )


def _merge(base: _Layer, over: _Layer) -> None:
    """Merge `over` into `base`, in place: values of `over` win, mappings merge unless the upper one says `_override_: true`."""
    _merge_values(base.values, over.values, base.positions, over.positions, "")


def _merge_values(
    target: dict[str, Any], source: dict[str, Any], positions: Positions, upper: Positions, at: str
) -> None:
    for key, value in source.items():
        path, old = child_path(at, key), target.get(key)
        if isinstance(value, dict) and isinstance(old, dict) and value.get(OVERRIDE_KEY) is not True:
            if path in upper:
                positions[path] = upper[path]
            _merge_values(old, value, positions, upper, path)
            continue
        for stale in _below(positions, path) if isinstance(old, dict | list) else ():
            del positions[stale]
        target[key] = value
        for name in (path, *_below(upper, path)) if isinstance(value, dict | list) else (path,):
            if name in upper:
                positions[name] = upper[name]


def _below(positions: Positions, path: str) -> list[str]:
    return [name for name in positions if name.startswith((f"{path}.", f"{path}["))]


def _drop_override_marks(layer: _Layer, refusals: list[Refusal]) -> None:
    """Take every `_override_` out of the resolved values; one that is not true or false is refused."""
    pending: list[tuple[Any, str]] = [(layer.values, "")]
    while pending:
        value, at = pending.pop()
        if isinstance(value, list):
            pending.extend((item, child_path(at, index)) for index, item in enumerate(value))
        if not isinstance(value, dict):
            continue
        path = child_path(at, OVERRIDE_KEY)
        mark = value.pop(OVERRIDE_KEY, False)
        file, line = layer.positions.pop(path, ("", 0))
        if not isinstance(mark, bool):
            message = _("{key} must be true or false").format(key=OVERRIDE_KEY)
            refusals.append(_invalid(Path(file), line, message, path))
        pending.extend((item, child_path(at, key)) for key, item in value.items())


def _invalid(path: Path, line: int, message: str, field_path: str) -> Refusal:
    return Refusal("config-invalid", message, field=field_path, file=str(path), line=line)
