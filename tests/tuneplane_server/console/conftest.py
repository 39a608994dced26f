"""The real console on a migrated SQLite database, and readers with a browser's manners."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from fastapi import FastAPI

from tuneplane_server.app import create_app
from tuneplane_server.services import Services
from tuneplane_server.settings import load_settings

NAME, PASSWORD = "ada", "correct horse battery"
HTML = "text/html,application/xhtml+xml"


@pytest.fixture
def app(tmp_path: Path, migrated_sqlite_url: str) -> FastAPI:
    settings = {
        "TUNEPLANE_STORAGE_ROOT": str(tmp_path / "root"),
        "TUNEPLANE_DATABASE_URL": migrated_sqlite_url.replace("+aiosqlite", ""),
        "TUNEPLANE_RUNTIME": "process",
        "TUNEPLANE_PUBLIC_URL": "http://console.test",
    }
    return create_app(load_settings(settings))


@pytest.fixture
async def services(app: FastAPI) -> AsyncIterator[Services]:
    """The console's services; its background roles are not started, so that a test decides what happens."""
    services: Services = app.state.services
    yield services
    await services.database.close()


@dataclass
class Browser:
    """A client that asks for pages, keeps cookies and sends what a browser's form would."""

    client: httpx.AsyncClient
    csrf: str = ""

    async def get(self, path: str, language: str = "en", **headers: str) -> httpx.Response:
        return await self.client.get(path, headers={"Accept": HTML, "Accept-Language": language, **headers})

    async def post(self, path: str, *, csrf: bool = True, site: str = "same-origin", **fields: Any) -> httpx.Response:
        data = fields | ({"csrf_token": self.csrf} if csrf else {})
        return await self.client.post(path, data=data, headers={"Accept": HTML, "Sec-Fetch-Site": site})

    async def sign_in(self, name: str = NAME, password: str = PASSWORD) -> httpx.Response:
        answer = await self.post("/signin", csrf=False, username=name, password=password)
        if answer.status_code == 303:
            page = await self.get("/settings/tokens")
            self.csrf = read(page.text).meta["csrf-token"]
        return answer


@pytest.fixture
async def visitor(app: FastAPI, services: Services) -> AsyncIterator[Browser]:
    """Nobody is signed in, and the console has no account."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://console.test") as client:
        yield Browser(client)


@pytest.fixture
async def browser(visitor: Browser, services: Services) -> Browser:
    """Signed in as the console's first administrator."""
    token = await services.accounts.issue_setup_token()
    assert token is not None
    await services.accounts.set_up(token, NAME, PASSWORD, "127.0.0.1")
    assert (await visitor.sign_in()).status_code == 303
    return visitor


class Page(HTMLParser):
    """What a page is made of, read by a parser: links, scripts, attributes a policy forbids, text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.meta: dict[str, str] = {}
        self.inline: list[str] = []
        self.text = ""
        self._script: dict[str, str | None] | None = None

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        self.tags.append((tag, values))
        if tag == "meta" and values.get("name"):
            self.meta[str(values["name"])] = values.get("content") or ""
        self.inline += [f"{tag} {name}" for name in values if name == "style" or name.startswith("on")]
        if tag == "style":
            self.inline.append("style element")
        if tag == "script":
            self._script = values

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is None:
            self.text += data
        elif "src" not in self._script and self._script.get("type") != "application/json":
            self.inline.append(f"script: {data[:40]}")

    def attributes(self, name: str) -> list[str]:
        return [str(values[name]) for _tag, values in self.tags if values.get(name)]

    @property
    def addresses(self) -> set[str]:
        """Everything the page refers to."""
        names = ("href", "src", "action", "hx-get", "hx-post")
        return {address for name in names for address in self.attributes(name)}


def read(text: str) -> Page:
    page = Page()
    page.feed(text)
    return page
