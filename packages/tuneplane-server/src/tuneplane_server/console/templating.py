"""Renders pages: one Jinja environment, and what every page knows (reader, language, theme, notices)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from tuneplane_server.console import display, script_messages
from tuneplane_server.console.assets import StaticTree
from tuneplane_server.console.i18n import _, current_language, ngettext
from tuneplane_server.console.icons import icon
from tuneplane_server.console.notices import notices
from tuneplane_server.features.accounts.deps import csrf_token, services_of
from tuneplane_server.features.accounts.principal import Principal

HERE = Path(__file__).parent
THEMES = ("auto", "light", "dark")
THEME_COOKIE = "tuneplane_theme"
# When the dark colours apply, as the media query of their style sheet.
_DARK_WHEN = {"auto": "(prefers-color-scheme: dark)", "dark": "all", "light": "not all"}


class Pages:
    """Turns a template and its values into an answer. One per app."""

    def __init__(self) -> None:
        self.assets = StaticTree(HERE / "static")
        self._environment = _environment(self.assets)

    def text(self, template: str, **values: Any) -> str:
        """A template without the page around it."""
        return self._environment.get_template(template).render(values)

    def page(
        self,
        request: Request,
        template: str,
        *,
        reader: Principal | None,
        status: int = 200,
        headers: dict[str, str] | None = None,
        **values: Any,
    ) -> HTMLResponse:
        """A page (or a part of one) for `reader`, who is None before sign-in."""
        theme = request.cookies.get(THEME_COOKIE, "auto")
        theme = theme if theme in THEMES else "auto"
        text = self.text(
            template,
            path=request.url.path,
            reader=reader,
            csrf=csrf_token(request, reader) if reader is not None else "",
            language=current_language(),
            theme=theme,
            dark_when=_DARK_WHEN[theme],
            script_messages=script_messages.translated(),
            unread=getattr(request.state, "unread", 0),
            notices=notices(services_of(request), getattr(request.state, "drain", None)) if reader is not None else [],
            **values,
        )
        kept = {
            "Cache-Control": "private, no-cache",
            "Content-Language": current_language(),
            "Vary": "Accept-Language, Cookie, HX-Request",
        }
        return HTMLResponse(text, status, kept | (headers or {}))


def _environment(assets: StaticTree) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
        auto_reload=False,
    )
    # The i18n extension adds this method to the environment at run time.
    install_gettext: Callable[..., None] = getattr(environment, "install_gettext_callables")  # noqa: B009
    install_gettext(_, ngettext, newstyle=True)
    names: dict[str, Any] = environment.globals
    names |= {
        "asset": assets.url,
        "icon": icon,
        "query": query,
        "PHASE_WORDS": display.PHASE_WORDS,
        "PHASE_ICONS": display.PHASE_ICONS,
    }
    environment.filters.update(
        duration=display.duration,
        relative=display.relative,
        iso=display.iso,
        clock=display.clock,
        size=display.size,
        number=display.number,
        short_digest=display.short_digest,
        pool_text=display.pool_text,
    )
    return environment


def query(**values: Any) -> str:
    """`?a=b&c=d` of the values that are set, for links that keep a page's filters; empty when none is."""
    set_values = {name: value for name, value in values.items() if value not in (None, "", [], ())}
    return f"?{urlencode(set_values, doseq=True)}" if set_values else ""
