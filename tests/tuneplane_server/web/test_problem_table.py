"""Every code has its line in the table, and every link of a problem leads to it."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from types import ModuleType

import pytest
from starlette.testclient import TestClient

from tests.services.session import ROOT
from tuneplane.contract.refusals import REFUSAL_CODES
from tuneplane_server.web.problem_table import GROUPS, PAGE, PROBLEMS
from tuneplane_server.web.problems import _CODE_OF_STATUS, STATUS_OF_CODE, ProblemError

SCRIPT = ROOT / "scripts/problem_pages.py"
SOURCES = sorted((ROOT / "packages/tuneplane-server/src").rglob("*.py"))


def codes_in_sources() -> Iterator[str]:
    """The codes that are written where a problem is made, by themselves or in a choice between two."""
    for path in SOURCES:
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                place = {"ProblemError": 1, "refused": 0, "Refusal": 0}.get(call.func.id)
                if place is not None and len(call.args) > place:
                    yield from (
                        str(node.value)
                        for node in ast.walk(call.args[place])
                        if isinstance(node, ast.Constant) and isinstance(node.value, str)
                    )


def test_every_code_is_in_the_table_once() -> None:
    listed = [entry.code for group in GROUPS for entry in group.entries]
    assert len(listed) == len(PROBLEMS)
    assert sorted(REFUSAL_CODES - PROBLEMS.keys()) == []
    assert sorted({*STATUS_OF_CODE, *_CODE_OF_STATUS.values()} - PROBLEMS.keys()) == []
    found = set(codes_in_sources())
    assert len(found) > 40
    assert sorted(found - PROBLEMS.keys()) == []
    answers_only = PROBLEMS.keys() - REFUSAL_CODES
    assert sorted(answers_only - found - set(_CODE_OF_STATUS.values())) == []


def test_sentences_stand_inside_others() -> None:
    for entry in PROBLEMS.values():
        for text in (entry.meaning, entry.advice):
            assert not text.endswith("."), entry.code
            assert text[0].islower() or text.startswith("NaN"), entry.code


@pytest.mark.parametrize("code", sorted(PROBLEMS))
def test_the_type_of_a_problem_leads_to_its_line(code: str, problems_page: str) -> None:
    link = ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, code, "x").to_json()["type"]
    assert link == f"{PAGE}#{code}"
    assert f'<tr id="{code}">' in problems_page


def test_a_code_of_no_line_claims_no_page() -> None:
    assert ProblemError(418, "of-a-later-version", "x").to_json()["type"] == "about:blank"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    from tuneplane_server.app import create_app
    from tuneplane_server.settings import load_settings

    root = tmp_path_factory.mktemp("problems")
    env = {"TUNEPLANE_STORAGE_ROOT": str(root / "root"), "TUNEPLANE_DATA_DIR": str(root / "data")}
    return TestClient(create_app(load_settings(env), roles=False))


@pytest.fixture(scope="module")
def problems_page(reader: TestClient) -> str:
    """What somebody reads who has not signed in: a problem may be that they cannot."""
    answer = reader.get(PAGE)
    assert answer.status_code == 200
    return answer.text


def test_the_page_speaks_the_readers_language(reader: TestClient, problems_page: str) -> None:
    assert "nobody is signed in" in problems_page
    chinese = reader.get(PAGE, headers={"Accept-Language": "zh-CN"}).text
    assert "没有登录" in chinese
    assert "nobody is signed in" not in chinese


@cache
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("problem_pages", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_manuals_pages_are_current() -> None:
    stale = [
        path.relative_to(ROOT) for path, text in tool().pages().items() if path.read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run make problems"


def test_checking_writes_nothing_and_a_wrong_call_says_how() -> None:
    checked = subprocess.run(
        [sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False, timeout=60
    )
    assert checked.returncode == 0, checked.stderr
    wrong = subprocess.run([sys.executable, SCRIPT, "check"], capture_output=True, text=True, check=False, timeout=60)
    assert (wrong.returncode, wrong.stderr.startswith("usage: ")) == (2, True)
