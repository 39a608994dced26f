"""Read a YAML file into JSON values and remember the line of every key.

One reader for every YAML file of a lab. It refuses what a job could not carry or a reader would take for something else:
duplicate keys, tags other than the plain ones, keys that are not text, NaN and infinities, integers JSON cannot hold.
Two readings differ from YAML 1.1 on purpose, because a training config means them that way: `1e-5` is a number, and `1:30` and
`2024-01-01` stay text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import yaml

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.quoted_words import system_words, yaml_words

MAX_BYTES = 4 * 1024 * 1024
MAX_NODES = 100_000  # aliases can make a small file expand without end
MAX_DEPTH = 100  # and an alias can point at what it stands in
MAX_INTEGER = 2**53 - 1  # RFC 8785: beyond it, a JSON number is not exact

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_EXPONENT = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+\Z")
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Document:
    """`value`: JSON value of the whole file (None when it is empty). `lines`: path such as `data.volumes[0]` -> 1-based line.
    `refusals`: single values and keys that cannot be carried; they are left out of `value`, and their lines are kept."""

    path: Path
    value: Any
    lines: dict[str, int]
    refusals: tuple[Refusal, ...] = ()


def child_path(parent: str, key: str | int) -> str:
    """The path of a key (`a.b`) or an item (`a[0]`) below `parent`; `parent` is empty at the top."""
    if isinstance(key, int):
        return f"{parent}[{key}]"
    return f"{parent}.{key}" if parent else key


def read_yaml(path: Path) -> Document:
    """The document in `path`. Raises `RefusedError` (`file-missing`, `yaml-invalid`, `number-not-finite`) with every problem found."""
    return _sound(read_partly(path))


def read_partly(path: Path) -> Document:
    """Like `read_yaml`, but what is wrong with single values is in the document's `refusals`, so that the others can be checked too."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _refused(path, 0, _("there is no such file"), code="file-missing") from None
    except OSError as error:
        message = _("cannot be read: {why}").format(why=system_words(error))
        raise _refused(path, 0, message, code="file-missing") from None
    if len(data) > MAX_BYTES:
        raise _refused(path, 0, _("is larger than {limit} MB").format(limit=MAX_BYTES // 1024 // 1024))
    return _parse(data, path)


def parse_yaml(data: bytes, path: Path) -> Document:
    """Like `read_yaml`, from bytes; `path` only names the file in refusals."""
    return _sound(_parse(data, path))


def _sound(document: Document) -> Document:
    if document.refusals:
        raise RefusedError(list(document.refusals))
    return document


def _parse(data: bytes, path: Path) -> Document:
    try:
        node = yaml.compose(data, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = _("is not YAML: {why}").format(why=yaml_words(error.context, error.problem))
        raise _refused(path, mark.line + 1 if mark else 0, message) from None
    except yaml.YAMLError as error:
        text = str(getattr(error, "reason", error)).splitlines()[0]
        raise _refused(path, 0, _("is not YAML: {why}").format(why=yaml_words(None, text))) from None
    except RecursionError:
        raise _refused(path, 0, _("is nested too deeply")) from None
    reader = _Reader(path)
    value = None if node is None else reader.value(node, "")
    return Document(path, value, reader.lines, tuple(reader.refusals))


def _refused(path: Path, line: int, message: str, code: str = "yaml-invalid", hint: str = "") -> RefusedError:
    return RefusedError([Refusal(code, message, hint, file=str(path), line=line)])


class _Reader:
    """Turns nodes into JSON values; collects lines and refusals on the way."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[str, int] = {}
        self.refusals: list[Refusal] = []
        self._nodes = 0
        self._depth = 0

    def value(self, node: Any, at: str) -> Any:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _refused(self.path, 0, _("holds more than {limit} values").format(limit=MAX_NODES))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, at)
        if node.tag not in (_TAG + "map", _TAG + "seq"):
            return self._refuse_tag(node, at)
        if self._depth >= MAX_DEPTH:
            line = node.start_mark.line + 1
            raise _refused(self.path, line, _("is nested deeper than {limit} levels").format(limit=MAX_DEPTH))
        self._depth += 1
        result = self._mapping(node, at) if isinstance(node, yaml.MappingNode) else self._sequence(node, at)
        self._depth -= 1
        return result

    def _sequence(self, node: Any, at: str) -> list[Any]:
        items = []
        for index, item in enumerate(node.value):
            path = child_path(at, index)
            self.lines[path] = item.start_mark.line + 1
            items.append(self.value(item, path))
        return items

    def _kept(self, node: Any, at: str) -> list[Any]:
        """The value, or nothing when it is one, or a list with one, that was refused."""
        before = len(self.refusals)
        value = self.value(node, at)
        return [value] if isinstance(node, yaml.MappingNode) or len(self.refusals) == before else []

    def _mapping(self, node: Any, at: str) -> dict[str, Any]:
        own: list[tuple[Any, Any, str]] = []
        inherited: dict[str, Any] = {}
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                inherited = {**self._merged(value_node, at), **inherited}
                continue
            key = self._key(key_node, at)
            if key is None:
                continue
            line = key_node.start_mark.line + 1
            if key in seen:
                self._refuse(
                    line,
                    child_path(at, key),
                    _("the key “{key}” stands twice, first in line {line}").format(key=key, line=seen[key]),
                    _("keep one of the two"),
                )
                continue
            seen[key] = line
            own.append((key_node, value_node, key))
        result = inherited
        for key_node, value_node, key in own:
            path = child_path(at, key)
            self.lines[path] = key_node.start_mark.line + 1
            for value in self._kept(value_node, path):
                result[key] = value
        return result

    def _merged(self, node: Any, at: str) -> dict[str, Any]:
        """The mapping behind `<<`: one mapping, or several of which the first wins."""
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        result: dict[str, Any] = {}
        for part in reversed(parts):
            if not isinstance(part, yaml.MappingNode):
                self._refuse(node.start_mark.line + 1, at, _("“<<” needs a mapping"))
                continue
            self._nodes += 1
            result.update(self.value(part, at))
        return result

    def _key(self, node: Any, at: str) -> str | None:
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.ScalarNode) or node.tag not in (_TAG + "str", _TAG + "value"):
            shown = node.value if isinstance(node, yaml.ScalarNode) else "…"
            self._refuse(line, at, _("the key {key} is not text").format(key=shown), _("put it in quotes"))
            return None
        if not self._encodable(node, at):
            return None
        return node.value

    def _scalar(self, node: Any, at: str) -> Any:
        tag, text = node.tag, node.value
        if tag == _TAG + "null":
            return None
        if tag == _TAG + "bool":
            return text.lower() in ("yes", "true", "on")
        if tag == _TAG + "int" and ":" not in text:
            return self._integer(node, at)
        if tag == _TAG + "float" and ":" not in text:
            return self._float(node, at)
        if tag == _TAG + "str" and node.style in (None, "") and _EXPONENT.match(text):
            return self._float(node, at)
        if tag in (_TAG + "str", _TAG + "int", _TAG + "float", _TAG + "timestamp", _TAG + "value", _TAG + "merge"):
            return text if self._encodable(node, at) else None
        return self._refuse_tag(node, at)

    def _integer(self, node: Any, at: str) -> int | None:
        text = node.value.replace("_", "").lower()
        sign = -1 if text.startswith("-") else 1
        digits = text.lstrip("+-")
        try:
            if digits.startswith(("0x", "0b")):
                number = sign * int(digits, 0)
            elif len(digits) > 1 and digits.startswith("0"):
                number = sign * int(digits, 8)
            else:
                number = sign * int(digits)
        except ValueError:
            number = sign * (MAX_INTEGER + 1)  # an int of thousands of digits: too large is what is wrong with it
        if abs(number) > MAX_INTEGER:
            self._refuse(
                node.start_mark.line + 1,
                at,
                _("the integer is beyond 2^53, which JSON cannot carry exactly"),
                _("put it in quotes if it is a name"),
                code="number-not-finite",
            )
            return None
        return number

    def _float(self, node: Any, at: str) -> float | str | None:
        text = node.value.replace("_", "").lower()
        try:
            number = float(text.replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            return node.value  # YAML's pattern for floats takes a few words that are none
        if not isfinite(number):
            self._refuse(
                node.start_mark.line + 1,
                at,
                _("{value} is not a finite number").format(value=node.value),
                _("write a finite number"),
                code="number-not-finite",
            )
            return None
        return number

    def _encodable(self, node: Any, at: str) -> bool:
        try:
            node.value.encode("utf-8")
        except UnicodeEncodeError:
            self._refuse(node.start_mark.line + 1, at, _("the text holds half of a surrogate pair"))
            return False
        return True

    def _refuse_tag(self, node: Any, at: str) -> None:
        self._refuse(
            node.start_mark.line + 1,
            at,
            _("the tag {tag} is not allowed").format(tag=node.tag.replace(_TAG, "!!")),
            _("only plain YAML values: text, numbers, true/false, null, lists and mappings"),
        )

    def _refuse(self, line: int, at: str, message: str, hint: str = "", code: str = "yaml-invalid") -> None:
        self.refusals.append(Refusal(code, message, hint, field=at, file=str(self.path), line=line))
