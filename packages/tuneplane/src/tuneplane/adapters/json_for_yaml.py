"""JSON text that a YAML 1.1 reader also reads as the same values.

JSON is nearly YAML, and PyYAML, which training frameworks use, trips over the rest: `1e-05` is text to it (YAML 1.1 wants a dot),
`\\ud83d\\ude00` becomes two lone surrogates, a raw U+0085 or U+2028 is a line break, and U+007F to U+009F are refused.
"""

from __future__ import annotations

import json
import re
from typing import Any, List

# Everything PyYAML refuses or treats as a break or byte-order mark, and lone surrogates, which UTF-8 cannot hold.
_ESCAPED = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def dumps(value: Any) -> str:
    """Indented text of a JSON value, a newline at the end. NaN and infinities raise `ValueError`."""
    return _render(value, 0) + "\n"


def _render(value: Any, depth: int) -> str:
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (list, tuple)):
        return _block("[", [_render(item, depth + 1) for item in value], "]", depth)
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("JSON keys are text")
        return _block("{", [_text(key) + ": " + _render(item, depth + 1) for key, item in value.items()], "}", depth)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _block(start: str, items: List[str], end: str, depth: int) -> str:
    if not items:
        return start + end
    indent = "\n" + "  " * (depth + 1)
    return start + indent + ("," + indent).join(items) + "\n" + "  " * depth + end


def _number(value: float) -> str:
    text = json.dumps(value, allow_nan=False)
    mantissa, exponent, power = text.partition("e")
    return mantissa + ".0" + exponent + power if exponent and "." not in mantissa else text


def _text(value: str) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
