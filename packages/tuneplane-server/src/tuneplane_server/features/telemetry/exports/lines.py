"""Tables as lines of text: CSV (RFC 4180) and JSON lines."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

import msgspec

from tuneplane_server.domain.series_codec import json_number, non_finite_name
from tuneplane_server.features.telemetry.exports.columns import Column, Part

# A spreadsheet takes a cell that begins so for a formula (OWASP, CSV injection): an apostrophe makes it text.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")


def csv_head(columns: Sequence[Column]) -> bytes:
    return _csv([[column.name for column in columns]])


def csv_lines(columns: Sequence[Column], part: Part) -> bytes:
    """NaN and the infinities by their names, what is missing as nothing."""
    shown = [_cells(column, values) for column, values in zip(columns, part.values, strict=True)]
    return _csv(zip(*shown, strict=True))


def json_lines(columns: Sequence[Column], part: Part) -> bytes:
    """One object a line; NaN and the infinities as text, as everywhere in the API."""
    names = [column.name for column in columns]
    numbers = [column.kind == "number" for column in columns]
    shown = [
        [None if value is None else json_number(value) for value in values] if number else values
        for number, values in zip(numbers, part.values, strict=True)
    ]
    return msgspec.json.Encoder().encode_lines([dict(zip(names, row, strict=True)) for row in zip(*shown, strict=True)])


def _cells(column: Column, values: Sequence[Any]) -> Sequence[Any]:
    if column.kind == "text":
        return [_guarded(value) for value in values]
    if column.kind == "number":
        return [value if value is None or math.isfinite(value) else non_finite_name(value) for value in values]
    return values


def _guarded(text: str | None) -> str | None:
    return f"'{text}" if text and text.startswith(FORMULA) else text


def _csv(rows: Any) -> bytes:
    found = io.StringIO(newline="")
    csv.writer(found).writerows(rows)
    return found.getvalue().encode()
