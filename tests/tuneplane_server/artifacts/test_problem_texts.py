"""Every reason that the runner writes for an incomplete checkpoint is told in the reader's language."""

from __future__ import annotations

import ast
import inspect

import pytest

from tuneplane.i18n import using_language
from tuneplane.runner import checkpoint_layouts, checkpoints, export_layouts
from tuneplane_server.features.artifacts.problem_texts import problem_text


def _sentences() -> list[str]:
    """What the functions of the runner that tell a problem can return, with something in their gaps."""
    functions = [
        node
        for module in (checkpoints, checkpoint_layouts)
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.FunctionDef) and ("problem" in node.name or module is checkpoint_layouts)
    ]
    returned = [item.value for function in functions for item in ast.walk(function) if isinstance(item, ast.Return)]
    critic = ["its critic: it holds no optimizer state"]  # made of two
    return [_text(value) for value in returned if _is_text(value)] + critic + _of_exports()


def _of_exports() -> list[str]:
    nodes = list(ast.walk(ast.parse(inspect.getsource(export_layouts))))
    given = [item.value for item in nodes if isinstance(item, ast.keyword) and item.arg == "problem"]
    kept = [item.value for item in nodes if isinstance(item, ast.Assign)]
    found = [_text(value) for value in [*given, *kept] if _is_text(value)]
    assert len(found) >= 5
    return found


def _is_text(value: ast.expr | None) -> bool:
    return isinstance(value, ast.JoinedStr) or (isinstance(value, ast.Constant) and isinstance(value.value, str))


def _text(value: ast.expr | None) -> str:
    if isinstance(value, ast.Constant):
        return str(value.value)
    assert isinstance(value, ast.JoinedStr)
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "model-7.bin" for part in value.values)


def test_the_runner_has_sentences_to_tell() -> None:
    assert len(_sentences()) >= 24


@pytest.mark.parametrize("sentence", _sentences())
def test_it_is_told_in_both_languages_with_what_it_names(sentence: str) -> None:
    with using_language("en"):
        assert problem_text(sentence) == sentence
    with using_language("zh-Hans"):
        told = problem_text(sentence)
    assert told is not None
    assert any("\u4e00" <= letter <= "\u9fff" for letter in told), told
    assert told.count("model-7.bin") == sentence.count("model-7.bin")


def test_what_another_version_wrote_stays_as_it_is() -> None:
    with using_language("zh-Hans"):
        assert problem_text("the moon is in the way") == "the moon is in the way"
        assert problem_text(None) is None
