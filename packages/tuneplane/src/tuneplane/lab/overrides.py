"""`--set name=value` as typed: split here, read and checked by the recipe. Never written into the lab."""

from __future__ import annotations

from collections.abc import Sequence

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _


def split_overrides(texts: Sequence[str]) -> tuple[dict[str, str], list[Refusal]]:
    """(parameter name -> text of the value, what is wrong). The value is everything after the first `=`."""
    values: dict[str, str] = {}
    refusals: list[Refusal] = []
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            message = _("--set {text} is no name=value").format(text=text[:80])
            refusals.append(Refusal("request-invalid", message, field="hyperparams"))
        elif name in values:
            message = _("--set gives {name} twice").format(name=name[:80])
            refusals.append(Refusal("request-invalid", message, field=f"hyperparams.{name[:80]}"))
        else:
            values[name] = value.strip()
    return values, refusals
