"""The manual's pages of reasons are the table's, in both languages."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from functools import cache
from types import ModuleType

import pytest

from tests.services.session import ROOT
from tuneplane_server.domain.reasons import REASONS

SCRIPT = ROOT / "scripts/reason_pages.py"
LANGUAGES = ["en", "zh-Hans"]


@cache
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reason_pages", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_current() -> None:
    stale = [
        path.relative_to(ROOT) for path, text in tool().pages().items() if path.read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run scripts/reason_pages.py"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_reason_has_its_heading_its_sentences_and_its_line(language: str) -> None:
    text = tool().render(language, str)
    sections = dict(re.findall(r"^### (\S+)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    assert sections.keys() == REASONS.keys()
    for entry in REASONS.values():
        section = sections[entry.code].replace("`{", "{").replace("}`", "}").replace("\\<", "<")
        assert entry.text[1:] in section
        assert entry.hint[1:] in section
        assert (f"```text\n{entry.seen}\n```" in section) == bool(entry.seen)


def test_a_sentence_is_translated_where_a_translation_is_known() -> None:
    known = {"the GPU ran out of memory": "GPU 显存不足"}
    text = tool().render("zh-Hans", lambda sentence: known.get(sentence, sentence))
    assert "GPU 显存不足。可重试：否。" in text
    assert tool().translations()["the run was cancelled"] == "作业已取消"


def test_nothing_in_a_sentence_is_taken_for_markup() -> None:
    assert tool()._prose("see {image} of <name>") == "See `{image}` of \\<name>"
    for language in LANGUAGES:
        prose = re.sub(r"```.*?```", "", tool().render(language, str), flags=re.DOTALL)
        assert re.findall(r"(?<!\\)<", prose) == []


def test_checking_writes_nothing_and_a_wrong_call_says_how() -> None:
    before = {path: path.stat().st_mtime_ns for path in tool().pages()}
    checked = subprocess.run(
        [sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False, timeout=60
    )
    assert checked.returncode == 0, checked.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before
    wrong = subprocess.run([sys.executable, SCRIPT, "check"], capture_output=True, text=True, check=False, timeout=60)
    assert (wrong.returncode, wrong.stderr.startswith("usage: ")) == (2, True)
