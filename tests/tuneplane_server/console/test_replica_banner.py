"""The banner of replicas without Redis: on every page, in the reader's language, with what to do (scenario 9)."""

from __future__ import annotations

import pytest

from tests.tuneplane_server.console.conftest import Browser, read
from tests.tuneplane_server.harness import Harness
from tuneplane_server.domain.findings import REPLICAS_WITHOUT_REDIS


@pytest.mark.parametrize("page", ["/jobs", "/settings/tokens", "/device"])
@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", ("background roles are disabled", "2 console replicas", "TUNEPLANE_REDIS_URL")),
        ("zh-Hans", ("后台角色", "禁用", "看门狗", "TUNEPLANE_REDIS_URL")),
    ],
)
async def test_every_page_says_that_background_roles_are_disabled(
    site: Harness, browser: Browser, page: str, language: str, said: tuple[str, ...]
) -> None:
    """Scenario 9."""
    await site.roles.switch_off()
    site.services.findings.put(REPLICAS_WITHOUT_REDIS, {"count": 2})
    text = read((await browser.get(page, language)).text).text
    for words in said:
        assert words in text


async def test_the_banner_goes_when_one_console_is_left(site: Harness, browser: Browser) -> None:
    site.services.findings.put(REPLICAS_WITHOUT_REDIS, {"count": 2})
    assert "Redis" in (await browser.get("/notices", **{"HX-Request": "true"})).text
    site.services.findings.clear(REPLICAS_WITHOUT_REDIS)
    assert "Redis" not in (await browser.get("/notices", **{"HX-Request": "true"})).text
