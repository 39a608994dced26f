"""Hydra overrides: one argument for each value, written so that Hydra reads back exactly what was meant.

Sources: hydra-core 1.3, `hydra/grammar/OverrideLexer.g4` and `QuotedString.with_quotes` of `hydra/core/override_parser/types.py`;
omegaconf 2.4, `omegaconf/grammar/OmegaConfGrammarLexer.g4` for what `${` means inside of a text.

Standard library only and nothing else of ours: `verl_start.py` takes this file with it into the job.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterator, List, Mapping, Tuple

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*\Z")
_WORDS = ("null", "true", "false", "nan", "inf")
# Signs that a key within `{…}` may hold: as they are, or behind a backslash. It cannot hold quotes, line breaks or other letters.
_PLAIN_SIGNS = "/-+.$%*@?|"
_ESCAPED_SIGNS = "\\()[]{}:=, \t"


class NotForHydraError(ValueError):
    """The name of a key that Hydra's grammar has no form for."""


def overrides(config: Mapping[str, Any], literal: bool = False) -> List[str]:
    """`++a.b=value` for every leaf. `++` sets a key whether the framework's tree has it or not: sections that take keys of any
    name (`engine_kwargs`) start empty. `literal`: `${…}` is text and no reference to another key. A key may be a dotted path.
    Raises `NotForHydraError`."""
    return [f"++{path}={value_text(value, literal)}" for path, value in _leaves(config, "")]


def value_text(value: Any, literal: bool = False) -> str:
    """A value in Hydra's grammar. Text is always quoted, so that nothing in it is syntax and no number is made of it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return json.dumps(value, allow_nan=False)
    if isinstance(value, str):
        return quoted(value, literal)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(value_text(item, literal) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_key_text(key)}:{value_text(item, literal)}" for key, item in value.items()) + "}"
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def quoted(text: str, literal: bool = False) -> str:
    """Between single quotes; backslashes count only in front of a quote, and in front of a `${` that is not to mean anything."""
    if literal:
        text = re.sub(r"(\\*)\$\{", lambda match: 2 * match.group(1) + "\\${", text)
    text = re.sub(r"(\\*)'", lambda match: 2 * match.group(1) + "\\'", text)
    trailing = len(text) - len(text.rstrip("\\"))
    return f"'{text}{trailing * chr(92)}'"


def _leaves(value: Mapping[str, Any], at: str) -> Iterator[Tuple[str, Any]]:
    """Path and value of everything that is set. Keys that no path can name come as one `{…}` of the section that holds them."""
    odd: Dict[str, Any] = {}
    for key, item in value.items():
        if not (_is_name(key) or (not at and all(map(_is_name, key.split("."))))):
            odd[key] = item
        elif isinstance(item, Mapping) and item:
            yield from _leaves(item, f"{at}{key}.")
        else:
            yield at + key, item
    if odd and not at:
        raise NotForHydraError(next(iter(odd)))
    if odd:
        yield at[:-1], odd


def _is_name(key: str) -> bool:
    return _NAME.match(key) is not None and key.lower() not in _WORDS


def _key_text(key: str) -> str:
    if _is_name(key):
        return key
    text = "".join(f"\\{sign}" if sign in _ESCAPED_SIGNS else sign for sign in key)
    fits = all((sign.isascii() and sign.isalnum()) or sign in "_" + _PLAIN_SIGNS + _ESCAPED_SIGNS for sign in key)
    # Without a letter that is no number's, Hydra would make a number, a truth value or nothing of it.
    if not fits or key != key.strip() or key.lower() in _WORDS or not re.search(r"[A-DF-Za-df-z_]", key):
        raise NotForHydraError(key)
    return text
