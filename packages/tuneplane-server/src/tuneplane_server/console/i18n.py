"""The console's gettext domain. Import `_` and `ngettext` from here in server code that speaks to people.

The language of a request is set by `web.middleware.LanguageMiddleware`; `tuneplane.i18n` looks the sentence up.
"""

from __future__ import annotations

from pathlib import Path

from tuneplane.i18n import LANGUAGES, N_, _, current_language, ngettext, register_domain, using_language

DOMAIN = "tuneplane_server"
DIRECTORY = Path(__file__).parent / "translations"

register_domain(DOMAIN, DIRECTORY)

__all__ = ["DIRECTORY", "DOMAIN", "LANGUAGES", "N_", "_", "current_language", "ngettext", "using_language"]
