"""What `tls_words` finds, as sentences: kept and sent in English, and shown in the language of whoever reads it."""

from __future__ import annotations

import re

from tuneplane.i18n import N_, _

UNTRUSTED = N_("its certificate is not trusted ({why})")
PLAIN = N_("it speaks plain HTTP there: use http://")
TLS = N_("it speaks TLS there: use https://")
_UNTRUSTED_BECAUSE = re.compile(re.escape(UNTRUSTED).replace(re.escape("{why}"), "(.*)"), re.DOTALL)


def in_readers_language(words: str) -> str:
    """A sentence of this catalogue in the current language; other words stay as they are."""
    untrusted = _UNTRUSTED_BECAUSE.fullmatch(words)
    if untrusted is not None:
        return _(UNTRUSTED).format(why=untrusted[1])
    return _(words) if words else ""
