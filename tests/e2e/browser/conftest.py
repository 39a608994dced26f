"""A real Chromium, whose complaints fail the test."""

from __future__ import annotations

import functools
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, expect

from tests.e2e.harness import Client
from tuneplane_server.console.templating import HERE

expect.set_options(timeout=60_000)  # the machine may be busy with other work


@dataclass
class Complaints:
    """What the browser says is wrong: errors and warnings on its console (broken policy among them), uncaught exceptions."""

    said: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def listen(self, page: Page) -> Page:
        page.on("console", self._on_message)
        page.on("pageerror", lambda error: self.said.append(f"uncaught: {error}"))
        return page

    def _on_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.said.append(f"{message.type}: {message.text}")

    @property
    def unexpected(self) -> list[str]:
        return [text for text in self.said if not any(part in text for part in self.expected)]


@pytest.fixture
def complaints() -> Iterator[Complaints]:
    complaints = Complaints()
    yield complaints
    assert complaints.unexpected == []


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    context = chromium.new_context(locale="en-US", timezone_id="UTC", viewport={"width": 1360, "height": 900})
    context.set_default_timeout(60_000)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, complaints: Complaints) -> Page:
    return complaints.listen(context.new_page())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say what the browser showed when a test of it failed: a time-out alone names what was not there."""
    report = yield
    page = getattr(item, "funcargs", {}).get("page")
    if report.when == "call" and report.failed and page is not None:
        try:
            page.set_default_timeout(5_000)
            report.sections.append(("what the page showed", f"{page.url}\n{page.locator('body').aria_snapshot()}"))
        except Error as error:
            report.sections.append(("what the page showed", f"it did not say: {error}"))
    return report


@pytest.fixture
def client(newcomer: Client) -> Client:
    """Somebody new on the module's console: starting one for each test takes longer than most of them."""
    return newcomer


@pytest.fixture
def signed_in(page: Page, client: Client) -> Page:
    page.goto(f"{client.console.url}/signin")
    page.get_by_label("Username").fill(client.user)
    page.get_by_label("Password").fill(client.console.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/jobs")
    return page


class _Quiet(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/favicon.ico":  # a browser asks for it on a page that names no icon
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base class
        """Requests for files are no news."""


@pytest.fixture(scope="session")
def static_address() -> Iterator[str]:
    """The console's static files on a port of their own, for tests of single modules."""
    handler = functools.partial(_Quiet, directory=str(HERE / "static"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
