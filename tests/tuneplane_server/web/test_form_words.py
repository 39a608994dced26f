"""Nothing of what pydantic says reaches a reader as it is: it speaks English only, and of inputs and instances."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.tuneplane_server.harness import jobspec
from tuneplane.i18n import using_language
from tuneplane_server.features.jobs.jobspec_input import parse_jobspec

_THEIRS = re.compile(r"\b(?:Input|Value|String|List|Dictionary|Tuple|Object|Field) (?:should|error|required)|\bvalid\b")
WRONG: list[Any] = [None, [], {}, [[]], "", "x" * 20_000, "x\ty", -1, 10**9, 1.5, True, [1], {"a": 1}, {"": None}]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from places(child, (*path, key))


def full_jobspec() -> dict[str, Any]:
    spec: dict[str, Any] = jobspec()
    spec["metadata"] |= {"display_name": "x", "labels": {"a": "b"}}
    spec["spec"] |= {
        "model": {"base": "hf:a/b"},
        "data": {"train": {"path": "/x"}, "validation": {"dataset": "a/b@1"}, "volumes": ["a/b"]},
        "env": {"A": "b"},
        "secrets": ["A"],
        "limits": {"max_duration": 60, "grace": 5, "retries": {"infra": 1}},
        "priority": 1,
    }
    return spec


def with_value(spec: dict[str, Any], path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    made = json.loads(json.dumps(spec))
    place = made
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return made


def test_every_wrong_value_anywhere_in_a_jobspec_is_refused_in_our_words() -> None:
    spec, seen = full_jobspec(), 0
    assert parse_jobspec(spec)[1] == []
    for path in places(spec):
        for value in WRONG:
            for refusal in parse_jobspec(with_value(spec, path, value))[1]:
                seen += 1
                assert not _THEIRS.search(refusal.message), refusal
    assert seen > 500


@pytest.mark.parametrize(
    ("path", "value", "english", "chinese"),
    [
        ("metadata.display_name", "a" * 300, "may have at most 200 characters", "最多 200 个字符"),
        ("metadata.name", 5, "must be text", "必须是字符串"),
        ("spec.priority", "high", "must be a whole number", "必须是整数"),
        ("spec.resources.pools.0.nodes", 0, "must be at least 1", "至少为 1"),
        ("spec.resources.pools", [], "needs 1 or more entries", "至少 1 项"),
        ("kind", "Job", "must be 'TrainingJob'", "必须是 'TrainingJob'"),
        ("spec.env", [], "must hold keys and values", "必须是键值结构"),
    ],
)
def test_a_wrong_value_is_told_in_both_languages(path: str, value: Any, english: str, chinese: str) -> None:
    keys = tuple(int(key) if key.isdigit() else key for key in path.split("."))
    for language, words in (("en", english), ("zh-Hans", chinese)):
        with using_language(language):
            (refusal,) = parse_jobspec(with_value(full_jobspec(), keys, value))[1]
        assert (refusal.field, refusal.message) == (path, words)


def test_what_is_no_jobspec_at_all_is_said_of_the_jobspec() -> None:
    (refusal,) = parse_jobspec([])[1]
    assert refusal.message == "the JobSpec must hold keys and values"
