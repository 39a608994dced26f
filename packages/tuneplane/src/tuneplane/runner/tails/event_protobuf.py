"""Scalars in TensorBoard's `Event` message, read without protobuf: a handful of fields, everything else is passed over.

Sources: tensorboardX 2.6.5, `tensorboardX/proto/{event,summary,tensor,types}.proto`, which are TensorFlow's. Writers use two
forms for a scalar: `simple_value` (torch, tensorboardX, TensorFlow 1) and a tensor of one element whose plugin is `scalars`
(TensorFlow 2, JAX).
"""

from __future__ import annotations

import struct
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

_Field = Tuple[int, int, Union[int, bytes]]  # number, wire type, value
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WALL_TIME, _STEP, _SUMMARY = 1, 2, 5  # Event
_SUMMARY_VALUE = 1  # Summary
_TAG, _SIMPLE_VALUE, _TENSOR, _METADATA = 1, 2, 8, 9  # Summary.Value
_PLUGIN_DATA, _PLUGIN_NAME = 1, 1  # SummaryMetadata, PluginData
_DTYPE, _CONTENT = 1, 4  # TensorProto
_SCALARS = (b"", b"scalars")
# DataType -> struct code of an element of `tensor_content`; bfloat16 (14) is the upper half of a float.
_CODES = {
    1: "f",
    2: "d",
    3: "i",
    4: "B",
    5: "h",
    6: "b",
    9: "q",
    10: "?",
    14: "bfloat16",
    17: "H",
    19: "e",
    22: "I",
    23: "Q",
}
# Field of TensorProto with the values of such types -> wire type of one and its struct code ("" = varint).
_VALUES = {5: (_FIXED32, "f"), 6: (_FIXED64, "d"), 7: (_VARINT, ""), 10: (_VARINT, ""), 11: (_VARINT, ""), 13: (_VARINT, ""), 16: (_VARINT, ""), 17: (_VARINT, "")}  # fmt: skip


class Event(NamedTuple):
    step: int
    time: float
    values: Dict[str, float]


class BadEventError(ValueError):
    """The bytes are no message, or a field has another type than it should."""


def read_event(data: bytes) -> Event:
    """The scalars of one event, perhaps none. Raises `BadEventError`."""
    step, time = 0, 0.0
    values: Dict[str, float] = {}
    for number, kind, value in _fields(data):
        if number == _WALL_TIME and kind == _FIXED64:
            time = _unpack("d", value)
        elif number == _STEP and kind == _VARINT:
            step = _signed(value)
        elif number == _SUMMARY and isinstance(value, bytes):
            for inner, inner_kind, entry in _fields(value):
                if inner == _SUMMARY_VALUE and inner_kind == _BYTES and isinstance(entry, bytes):
                    _read_value(entry, values)
    return Event(step, time, values)


def _read_value(data: bytes, values: Dict[str, float]) -> None:
    tag, plugin = "", b""
    found: Optional[float] = None
    for number, kind, value in _fields(data):
        if number == _SIMPLE_VALUE and kind == _FIXED32:
            found = _unpack("f", value)
        elif kind != _BYTES or not isinstance(value, bytes):
            continue
        elif number == _TAG:
            tag = value.decode("utf-8", "replace")
        elif number == _TENSOR:
            found = _scalar_tensor(value)
        elif number == _METADATA:
            plugin = _bytes_at(_bytes_at(value, _PLUGIN_DATA), _PLUGIN_NAME)
    if tag and found is not None and plugin in _SCALARS:
        values[tag] = found


def _scalar_tensor(data: bytes) -> Optional[float]:
    """The one element of a tensor; None when it has more or fewer, or is no number."""
    dtype, content = 0, b""
    elements: List[float] = []
    for number, kind, value in _fields(data):
        if number == _DTYPE and isinstance(value, int):
            dtype = value
        elif number == _CONTENT and isinstance(value, bytes):
            content = value
        elif number in _VALUES:
            elements += _elements(number, kind, value)
    code = _CODES.get(dtype)
    if code is None:
        return None
    if content:
        if code == "bfloat16":
            return _unpack("f", b"\0\0" + content) if len(content) == 2 else None
        return _unpack(code, content) if len(content) == struct.calcsize("<" + code) else None
    if len(elements) != 1:
        return None
    if code in ("e", "bfloat16"):  # half_val holds the bits
        bits = int(elements[0]) & 0xFFFF
        return _unpack("e", struct.pack("<H", bits)) if code == "e" else _unpack("f", struct.pack("<I", bits << 16))
    return elements[0]


def _elements(number: int, kind: int, value: Union[int, bytes]) -> List[float]:
    """Repeated numbers, packed or one by one."""
    wire, code = _VALUES[number]
    if kind == wire:
        return [_unpack(code, value) if code else float(_signed(value))]
    if kind != _BYTES or not isinstance(value, bytes):
        raise BadEventError(f"field {number} has wire type {kind}")
    if code:
        size = struct.calcsize("<" + code)
        return [_unpack(code, value[at : at + size]) for at in range(0, min(len(value), 2 * size), size)]
    elements: List[float] = []
    at = 0
    while at < len(value) and len(elements) < 2:  # whether it is one is all that matters
        element, at = _varint(value, at)
        elements.append(float(_signed(element)))
    return elements


def _bytes_at(data: bytes, wanted: int) -> bytes:
    found = b""
    for number, _, value in _fields(data):
        if number == wanted and isinstance(value, bytes):
            found = value
    return found


def _fields(data: bytes) -> Iterator[_Field]:
    """Fields of one message; fixed numbers as their bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, kind, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise BadEventError(f"wire type {kind}")
        if at + size > len(data):
            raise BadEventError("a field is longer than its message")
        yield number, kind, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise BadEventError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise BadEventError("a number is longer than 64 bits")


def _signed(value: Union[int, bytes]) -> int:
    if not isinstance(value, int):
        raise BadEventError("no varint")
    return value - (1 << 64) if value >= 1 << 63 else value


def _unpack(code: str, value: Union[int, bytes]) -> float:
    try:
        if isinstance(value, bytes):
            return float(struct.unpack("<" + code, value)[0])
    except (struct.error, OverflowError) as error:
        raise BadEventError(str(error)) from None
    raise BadEventError("no fixed number")
