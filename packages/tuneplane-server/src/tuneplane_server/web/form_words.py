"""What pydantic says about a value that does not fit, in our words and the reader's language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuneplane.i18n import N_, _

_WORDS = {
    "missing": N_("is missing"),
    "extra_forbidden": N_("is not known here"),
    "string_type": N_("must be text"),
    "string_unicode": N_("must be text"),
    "string_too_long": N_("may have at most {max_length} characters"),
    "string_too_short": N_("needs {min_length} or more characters"),
    "string_pattern_mismatch": N_("must match {pattern}"),
    "too_long": N_("may have at most {max_length} entries"),
    "too_short": N_("needs {min_length} or more entries"),
    "int_type": N_("must be a whole number"),
    "int_parsing": N_("must be a whole number"),
    "int_parsing_size": N_("must be a whole number"),
    "int_from_float": N_("must be a whole number"),
    "float_type": N_("must be a number"),
    "float_parsing": N_("must be a number"),
    "finite_number": N_("must be a finite number"),
    "bool_type": N_("must be true or false"),
    "bool_parsing": N_("must be true or false"),
    "list_type": N_("must be a list"),
    "tuple_type": N_("must be a list"),
    "dict_type": N_("must hold keys and values"),
    "model_type": N_("must hold keys and values"),
    "model_attributes_type": N_("must hold keys and values"),
    "mapping_type": N_("must hold keys and values"),
    "greater_than_equal": N_("must be at least {ge}"),
    "greater_than": N_("must be more than {gt}"),
    "less_than_equal": N_("must be at most {le}"),
    "less_than": N_("must be less than {lt}"),
    "literal_error": N_("must be {expected}"),
    "json_invalid": N_("is not JSON"),
    "json_type": N_("is not JSON"),
}


def form_words(error: Mapping[str, Any]) -> str:
    """The sentence for one item of `ValidationError.errors()`. What our own validators say is in our words already."""
    text = _WORDS.get(error["type"])
    context = error.get("ctx") or {}
    if text is None or (error["type"] == "finite_number" and "text" in context):
        return str(error["msg"]).removeprefix("Value error, ")
    expected = str(context.get("expected", "")).replace(" or ", _(" or "))
    return _(text).format(**{**context, "expected": expected})
