"""Translation: gettext catalogues chosen by a context variable, English when nothing else is asked for.

`_("…")` looks the sentence up in the language of the current context: the CLI sets it once at start from
`TUNEPLANE_LANG`, `LC_ALL`, `LC_MESSAGES` or `LANG`; the console sets it per request. Catalogues are opened on first use only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gettext import NullTranslations

LANGUAGES = ("en", "zh-Hans")
_LOCALE_DIRS: dict[str, Path] = {"tuneplane": Path(__file__).parent / "locale"}
_loaded: dict[tuple[str, str], NullTranslations] = {}
_language: ContextVar[str] = ContextVar("tuneplane_language", default="en")


def register_domain(domain: str, directory: Path) -> None:
    """Add a gettext domain (another distribution's catalogue) that `_` also looks in."""
    _LOCALE_DIRS[domain] = directory


def pick_language(wanted: str) -> str:
    """The supported language for a tag such as `zh_CN.UTF-8`, `zh-Hans` or `en-US`; `en` when unknown."""
    return "zh-Hans" if wanted.strip().lower().startswith("zh") else "en"


def language_from_environment() -> str:
    for name in ("TUNEPLANE_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(name)
        if value:
            return pick_language(value)
    return "en"


def current_language() -> str:
    return _language.get()


def set_language(language: str) -> None:
    """Set the language of the current context (thread or task)."""
    _language.set(pick_language(language))


@contextmanager
def using_language(language: str) -> Iterator[None]:
    token = _language.set(pick_language(language))
    try:
        yield
    finally:
        _language.reset(token)


def _(message: str) -> str:
    """The sentence in the current language, or as it is when no catalogue has it."""
    language = _language.get()
    if language == "en" or not message:
        return message
    for domain in _LOCALE_DIRS:
        found = _catalogue(domain, language).gettext(message)
        if found != message:
            return found
    return message


def ngettext(singular: str, plural: str, count: int) -> str:
    """The plural form for `count` in the current language."""
    language = _language.get()
    fallback = singular if count == 1 else plural
    if language == "en":
        return fallback
    for domain in _LOCALE_DIRS:
        found = _catalogue(domain, language).ngettext(singular, plural, count)
        if found not in (singular, plural):
            return found
    return fallback


def N_(message: str) -> str:  # noqa: N802 - gettext's own name for "mark, translate later"
    """Mark a sentence for extraction without translating it here."""
    return message


def _catalogue(domain: str, language: str) -> NullTranslations:
    key = (domain, language)
    if key not in _loaded:
        import gettext

        _loaded[key] = gettext.translation(
            domain, str(_LOCALE_DIRS[domain]), languages=[language.replace("-", "_")], fallback=True
        )
    return _loaded[key]
