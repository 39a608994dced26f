"""What the pages are made of: templates, modules, icons and messages fit together, and nothing breaks the policy."""

from __future__ import annotations

import re
from pathlib import Path

from tuneplane_server.console import script_messages
from tuneplane_server.console.i18n import using_language
from tuneplane_server.console.icons import FOLDER
from tuneplane_server.console.templating import HERE

TEMPLATES = sorted((HERE / "templates").rglob("*.html"))
MODULES = sorted((HERE / "static/js").rglob("*.js"))
PYTHON = sorted(HERE.rglob("*.py"))


def _text(paths: list[Path]) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def test_no_template_holds_what_the_policy_forbids() -> None:
    text = _text(TEMPLATES)
    assert re.findall(r"<[^>]*\sstyle=", text) == []
    assert re.findall(r"<[^>]*\son[a-z]+=", text) == []
    assert re.findall(r"<style", text) == []
    assert [
        tag for tag in re.findall(r"<script[^>]*>", text) if "src=" not in tag and "application/json" not in tag
    ] == []
    assert re.findall(r"hx-(?:on|vars)\b|hx-\w+=.js:", text) == []  # htmx would have to evaluate these


def test_nothing_comes_from_another_address() -> None:
    for path in [*TEMPLATES, *MODULES, *(HERE / "static/css").glob("*.css")]:
        outside = [
            url
            for url in re.findall(r"https?://[^\s\"'`<>)]+", path.read_text(encoding="utf-8"))
            if "w3.org/" not in url
        ]
        assert outside == [], path.name


def test_modules_never_evaluate_text_or_write_markup() -> None:
    text = _text(MODULES)
    assert re.findall(r"\beval\(|new Function|innerHTML|outerHTML|insertAdjacentHTML|document\.write", text) == []


def test_modules_ask_only_for_messages_that_reach_them() -> None:
    text = _text(MODULES)
    asked = set(re.findall(r"\bt\(\s*\"((?:[^\"\\]|\\.)*)\"", text))
    counted = set(re.findall(r"\btn\(\s*\"([^\"]*)\",\s*\"[^\"]*\"", text))
    with using_language("zh-Hans"):
        known = set(script_messages.translated())
    assert asked | counted == known


def test_english_pages_carry_no_messages() -> None:
    with using_language("en"):
        assert script_messages.translated() == {}


def test_every_icon_is_vendored_and_every_vendored_icon_is_used() -> None:
    vendored = {path.stem for path in FOLDER.glob("*.svg")}
    written = set(re.findall(r"\bicon\(\"([a-z0-9-]+)\"", _text(TEMPLATES)))
    named = {name for name in vendored if f'"{name}"' in _text(PYTHON + TEMPLATES)}
    assert written <= vendored
    assert vendored - written - named == set()


def test_every_static_file_that_a_template_names_exists() -> None:
    named = set(re.findall(r"asset\('([^'~]+)'\)", _text(TEMPLATES)))
    assert named
    assert [name for name in sorted(named) if not (HERE / "static" / name).is_file()] == []


def test_every_import_of_a_module_leads_to_a_file() -> None:
    for module in MODULES:
        for target in re.findall(r"(?:from|import)\s*\(?\s*\"(\.[^\"]+)\"", module.read_text(encoding="utf-8")):
            assert (module.parent / target).is_file(), f"{module.name}: {target}"
