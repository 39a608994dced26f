"""How the states of a lock are called, in listings and comparisons."""

from __future__ import annotations

from tuneplane.i18n import _
from tuneplane.recipes.lock import State


def state_words(state: State) -> str:
    words = {
        "current": _("current"),
        "runtime-changed": _("runtime changed"),
        "stale": _("stale"),
        "tampered": _("tampered"),
        "foreign": _("of another client"),
        "method-unknown": _("method unknown"),
        "runtime-removed": _("runtime gone"),
        "missing": _("no lock"),
        "invalid": _("broken"),
        "catalog-changed": _("recipe damaged"),
    }
    return words[state]
