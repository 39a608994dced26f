"""One reader for every YAML file: values as a training config means them, a line for every key, nothing a job could not carry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.tuneplane.lab.conftest import refusals
from tuneplane.contract.refusals import RefusedError
from tuneplane.lab import yamlfile
from tuneplane.lab.yamlfile import _EXPONENT, parse_yaml, read_yaml

PATH = Path("config.yaml")


def value(text: str) -> Any:
    return parse_yaml(text.encode(), PATH).value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e-5", 1e-5),
        ("2.0e-5", 2.0e-5),
        ("-1E+3", -1000.0),
        (".5", 0.5),
        ("'1e-5'", "1e-5"),
        ("1_000", 1000),
        ("0x1F", 31),
        ("0b101", 5),
        ("010", 8),
        ("0", 0),
        ("-7", -7),
        ("1:30", "1:30"),
        ("1:30.5", "1:30.5"),
        ("2024-01-01", "2024-01-01"),
        ("yes", True),
        ("Off", False),
        ("~", None),
        ("null", None),
        ("'null'", "null"),
        ("=", "="),
        ("学习率", "学习率"),
    ],
)
def test_scalars_mean_what_a_training_config_means(text: str, expected: Any) -> None:
    found = value(f"key: {text}\n")["key"]
    assert found == expected
    assert type(found) is type(expected)


def test_every_key_and_item_has_its_line() -> None:
    document = parse_yaml(b"a:\n  b: 1\n  c:\n    - x\n    - y: 2\nd: {e: 3}\n", PATH)
    assert document.lines == {
        "a": 1, "a.b": 2, "a.c": 3, "a.c[0]": 4, "a.c[1]": 5, "a.c[1].y": 5, "d": 6, "d.e": 6,
    }  # fmt: skip


def test_anchors_and_merge_keys_are_resolved_own_keys_winning() -> None:
    text = "base: &base {a: 1, b: 2}\nother: &other {b: 3, c: 4}\nx:\n  <<: [*base, *other]\n  a: 9\n"
    document = parse_yaml(text.encode(), PATH)
    assert document.value["x"] == {"a": 9, "b": 2, "c": 4}
    assert document.lines["x.a"] == 5
    assert document.lines["x.b"] == 1


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", "yaml-invalid", 3, "first in line 1"),
        ("a:\n  b: 1\n  b: 2\n", "yaml-invalid", 3, "twice"),
        ("1: x\n", "yaml-invalid", 1, "not text"),
        ("true: x\n", "yaml-invalid", 1, "not text"),
        ("? [a]\n: b\n", "yaml-invalid", 1, "not text"),
        ("a: !!python/object/apply:os.system [ls]\n", "yaml-invalid", 1, "python"),
        ("a: !custom x\n", "yaml-invalid", 1, "!custom"),
        ("a: !!binary aGk=\n", "yaml-invalid", 1, "!!binary"),
        ("a: !!set {b}\n", "yaml-invalid", 1, "!!set"),
        ("a: .nan\n", "number-not-finite", 1, ".nan"),
        ("x: 1\na: -.inf\n", "number-not-finite", 2, "-.inf"),
        ("a: 1e999\n", "number-not-finite", 1, "1e999"),
        ("a: 9007199254740993\n", "number-not-finite", 1, "2^53"),
        (f"a: {'9' * 5000}\n", "number-not-finite", 1, "2^53"),
        ("a: [1, 2\nb: 3\n", "yaml-invalid", 2, "not YAML"),
        ("a:\n\t- b\n", "yaml-invalid", 2, "not YAML"),
        ("a: 1\n---\nb: 2\n", "yaml-invalid", 2, "single document"),
        ("x: 1\na: *nowhere\n", "yaml-invalid", 2, "alias"),
        ("a: &a [*a]\n", "yaml-invalid", 1, "deeper"),
        ("a:\n  <<: 3\n", "yaml-invalid", 2, "mapping"),
    ],
)
def test_what_a_job_could_not_carry_is_refused_with_its_line(text: str, code: str, line: int, words: str) -> None:
    found = refusals(lambda: parse_yaml(text.encode(), PATH))
    assert [(item.code, item.line, item.file) for item in found] == [(code, line, "config.yaml")]
    assert words in found[0].message


def test_every_problem_is_told_not_only_the_first() -> None:
    found = refusals(lambda: value("a: .nan\nb: 1\nb: 2\nc: !x y\n"))
    assert sorted(item.line for item in found) == [1, 3, 4]


@pytest.mark.parametrize("data", [b"\xff\xfe\xfa", b"a: \xff", b"a: \x00", b'a: "\\ud800"'])
def test_bytes_that_are_no_text_are_refused(data: bytes) -> None:
    assert refusals(lambda: parse_yaml(data, PATH))[0].code == "yaml-invalid"


def test_a_small_file_that_expands_without_end_is_refused() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]
    found = refusals(lambda: value("\n".join(lines)))
    assert "values" in found[0].message


@pytest.mark.parametrize("count", [150, 5_000, 200_000])
def test_deep_nesting_is_refused_and_crashes_nothing(count: int) -> None:
    assert refusals(lambda: value("[" * count + "]" * count))[0].code == "yaml-invalid"


def test_missing_unreadable_and_oversized_files_are_refused(tmp_path: Path) -> None:
    assert refusals(lambda: read_yaml(tmp_path / "none.yaml"))[0].code == "file-missing"
    assert refusals(lambda: read_yaml(tmp_path))[0].code == "file-missing"
    large = tmp_path / "large.yaml"
    with large.open("wb") as file:
        file.truncate(yamlfile.MAX_BYTES + 1)
    assert "larger" in refusals(lambda: read_yaml(large))[0].message


def test_an_empty_file_has_no_value() -> None:
    assert parse_yaml(b"", PATH).value is None
    assert parse_yaml(b"# only a comment\n", PATH).value is None


TEXT = st.text(alphabet=st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Cn")), max_size=20).filter(
    lambda text: not _EXPONENT.match(text)  # which are numbers here, and text for the YAML that writes them
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(st.dictionaries(TEXT, JSON, max_size=5))
def test_what_yaml_writes_is_read_back_and_is_json(tree: dict[str, Any]) -> None:
    text = yaml.safe_dump(tree, allow_unicode=True)
    found = value(text)
    assert (found or {}) == tree
    json.dumps(found, allow_nan=False)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_a_refusal(data: bytes) -> None:
    try:
        found = parse_yaml(data, PATH).value
    except RefusedError:
        return
    json.dumps(found, allow_nan=False)
