"""Values as Hydra overrides. CPython 3.9 and the standard library. That Hydra reads them back is proved in tests/catalog/verl."""

from __future__ import annotations

import pytest

from tuneplane.adapters.hydra_overrides import NotForHydraError, overrides, quoted, value_text


def test_every_leaf_is_one_override() -> None:
    config = {
        "data": {"train_batch_size": 32, "val_files": None},
        "trainer": {"v1": {"sync": {}}, "logger": ["console", "file"]},
    }
    assert overrides(config) == [
        "++data.train_batch_size=32",
        "++data.val_files=null",
        "++trainer.v1.sync={}",
        "++trainer.logger=['console','file']",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (1e-07, "1e-07"),
        ("true", "'true'"),
        ("1", "'1'"),
        ("", "''"),
        ([1, "a b", [None]], "[1,'a b',[null]]"),
        ({"a": {"b-c": 1}}, "{a:{b-c:1}}"),
    ],
)
def test_a_value_keeps_its_type(value: object, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("it's", r"'it\'s'"),
        ("a\\b", r"'a\b'"),
        ("\\'", r"'\\\''"),
        ("end\\", r"'end\\'"),
        ("\\\\", r"'\\\\'"),
        ('$HOME $(id) "x"\n', "'$HOME $(id) \"x\"\n'"),
    ],
)
def test_backslashes_count_only_in_front_of_a_quote(text: str, argument: str) -> None:
    assert quoted(text) == argument


def test_a_reference_is_one_unless_it_is_to_be_text() -> None:
    assert quoted("${data.seed}") == "'${data.seed}'"
    assert quoted("${data.seed}", literal=True) == r"'\${data.seed}'"
    assert quoted("\\${x}", literal=True) == r"'\\\${x}'"
    assert overrides({"a": {"b": ["${x}"]}}, literal=True) == [r"++a.b=['\${x}']"]


def test_names_that_no_path_can_say_come_in_braces() -> None:
    assert overrides({"model": {"override_config": {"a.b": 1, "c d": {"e": 2}, "f": 3}}}) == [
        "++model.override_config.f=3",
        r"++model.override_config={a.b:1,c\ d:{e:2}}",
    ]
    assert overrides({"data.seed": 1}) == ["++data.seed=1"]


@pytest.mark.parametrize("key", ["训练", "it's", "1", "1e5", "null", "a\nb", " a", ""])
def test_a_name_that_hydra_cannot_say_is_refused(key: str) -> None:
    with pytest.raises(NotForHydraError):
        overrides({"model": {"override_config": {key: 1}}})
