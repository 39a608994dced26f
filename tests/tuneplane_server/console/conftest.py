"""The real console without its timers, and readers with a browser's manners."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from fastapi import FastAPI

from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Harness
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.accounts.sessions import COOKIE
from tuneplane_server.services import Services

ADDRESS = "http://console.test"
HTML = "text/html,application/xhtml+xml"


def app_of(harness: Harness) -> FastAPI:
    """The app on the harness' services; its roles are the ones that the test ticks."""
    harness.services.__dict__["roles"] = harness.roles
    return harness.app


@pytest.fixture
async def site(migrated_sqlite_url: str, tmp_path: Path) -> AsyncIterator[Harness]:
    """A console on SQLite, where the database is not what is tested."""
    harness = Harness(migrated_sqlite_url, tmp_path, ScriptedExecutor(), {"TUNEPLANE_PUBLIC_URL": ADDRESS})
    yield harness
    await harness.close()


@pytest.fixture
def services(site: Harness) -> Services:
    return site.services


@dataclass
class Browser:
    """A client that asks for pages, keeps cookies and sends what a browser's form would."""

    client: httpx.AsyncClient
    csrf: str = ""

    async def get(self, path: str, language: str = "en", **headers: str) -> httpx.Response:
        return await self.client.get(path, headers={"Accept": HTML, "Accept-Language": language, **headers})

    async def post(self, path: str, *, csrf: bool = True, site: str = "same-origin", **fields: Any) -> httpx.Response:
        return await self.send(path, fields | ({"csrf_token": self.csrf} if csrf else {}), site)

    async def send(self, path: str, data: dict[str, Any], site: str = "same-origin") -> httpx.Response:
        return await self.client.post(path, data=data, headers={"Accept": HTML, "Sec-Fetch-Site": site})

    async def sign_in(self, name: str, password: str) -> httpx.Response:
        """Through the form."""
        answer = await self.post("/signin", csrf=False, username=name, password=password)
        if answer.status_code == 303:
            await self._read_csrf()
        return answer

    async def become(self, services: Services, user: Principal) -> None:
        """Signed in without the half second that a password costs."""
        cookie = services.accounts.signer.issue(user.user_id, 0, services.clock.now())
        self.client.cookies.set(COOKIE, cookie, domain="console.test")
        await self._read_csrf()

    async def _read_csrf(self) -> None:
        page = await self.get("/settings/tokens")
        self.csrf = read(page.text).meta["csrf-token"]


@asynccontextmanager
async def browsing(app: FastAPI) -> AsyncIterator[Browser]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
        yield Browser(client)


@pytest.fixture
async def visitor(site: Harness) -> AsyncIterator[Browser]:
    """Nobody is signed in, and the console has no account."""
    async with browsing(app_of(site)) as browser:
        yield browser


@pytest.fixture
async def browser(visitor: Browser, site: Harness) -> Browser:
    """Signed in as `ada`, an administrator."""
    await visitor.become(site.services, await site.user("ada", admin=True))
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

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
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
