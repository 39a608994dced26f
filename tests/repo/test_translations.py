"""Every sentence for people has a Chinese one that says the same with the same values."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from types import ModuleType

import pytest
from babel.messages.catalog import Message

from tests.services.session import ROOT

DOMAINS = ["tuneplane", "tuneplane_node", "tuneplane_server"]
PLACEHOLDER = re.compile(r"\{[^{}]*\}|%\([a-z_]+\)[sd]|%[sd]")
Messages = dict[tuple[str, ...], Message]


@cache
def tool() -> ModuleType:
    """scripts/translations.py, so that the test and `make i18n-update` look at the same sources."""
    spec = importlib.util.spec_from_file_location("translations_tool", ROOT / "scripts/translations.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_id(catalog: list[Message]) -> Messages:
    """Keyed by the message id, or by singular and plural."""
    return {
        (message.id,) if isinstance(message.id, str) else tuple(message.id): message
        for message in catalog
        if message.id
    }


@cache
def wanted(domain: str) -> Messages:
    return by_id(tool().extract(domain))


@cache
def translated(domain: str) -> Messages:
    path = tool().catalog_path(domain)
    return by_id(tool().load(path)) if path.exists() else {}


def texts(message: Message) -> tuple[str, ...]:
    return (message.string,) if isinstance(message.string, str) else tuple(message.string or ())


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_message_is_translated(domain: str) -> None:
    have = translated(domain)
    missing = [
        f"{message.locations[0][0]}: {ids[0]}"
        for ids, message in wanted(domain).items()
        if ids not in have or not tool().is_translated(have[ids])
    ]
    assert missing == [], "make i18n-update adds them to the .po file"


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_translation_is_left_of_a_message_that_is_gone(domain: str) -> None:
    assert sorted(ids[0] for ids in translated(domain).keys() - wanted(domain).keys()) == []


@pytest.mark.parametrize("domain", DOMAINS)
def test_translations_use_the_same_values(domain: str) -> None:
    wrong = {}
    for ids, message in translated(domain).items():
        expected = set(PLACEHOLDER.findall(ids[-1]))
        for text in texts(message):
            if text and set(PLACEHOLDER.findall(text)) != expected:
                wrong[ids[0]] = text
    assert wrong == {}


def test_a_missing_value_would_be_seen() -> None:
    assert set(PLACEHOLDER.findall("{n} of %(total)s")) == {"{n}", "%(total)s"}
