"""Names and references: what becomes a path or a label is checked first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane.contract import names
from tuneplane.contract.words import is_identity_env


@pytest.mark.parametrize("text", ["a", "A.b_c-1", "9", "x" * 63])
def test_a_segment_of_letters_digits_dots_underscores_and_dashes_is_a_name(text: str) -> None:
    assert names.is_segment(text)


@pytest.mark.parametrize(
    "text", ["", ".", "..", "a..b", "-a", "_a", "a/b", "a b", "实验", "é", "a\n", "a\0", "x" * 64, "x" * 300]
)
def test_anything_else_is_not_a_name(text: str) -> None:
    assert not names.is_segment(text)


@given(st.text())
def test_a_name_never_leaves_its_directory(text: str) -> None:
    if names.is_segment(text):
        assert "/" not in text
        assert "\\" not in text
        assert "\0" not in text
        assert text not in {".", ".."}
        assert text.isascii()


def test_a_run_reference_carries_kind_step_and_attempt() -> None:
    assert names.parse_run_ref("run/0123456789abcdef/checkpoint") == ("0123456789abcdef", "checkpoint", None, None)
    assert names.parse_run_ref("run/0123456789abcdef/checkpoint@step=4,attempt=2") == (
        "0123456789abcdef",
        "checkpoint",
        4,
        2,
    )


@pytest.mark.parametrize(
    "text",
    [
        "run/short/checkpoint",
        "run/0123456789abcdef",
        "run/0123456789abcdef/x@epoch=1",
        "run/0123456789abcdef/x@step=",
        "run/../x",
    ],
)
def test_a_broken_run_reference_is_not_guessed(text: str) -> None:
    assert names.parse_run_ref(text) is None


def test_hub_references_keep_their_revision() -> None:
    assert names.parse_hub_ref("hf:org/model@main") == ("hf", "org/model", "main")
    assert names.parse_hub_ref("ms:org/model") == ("ms", "org/model", None)
    assert names.parse_hub_ref("hf:../etc") is None
    assert names.parse_hub_ref("s3:org/model") is None


def test_owned_references_are_dataset_with_version_or_volume_without() -> None:
    assert names.parse_owned_ref("ann/pairs@v1") == ("ann", "pairs", "v1")
    assert names.parse_owned_ref("ann/corpus") == ("ann", "corpus", None)
    for broken in ("ann", "ann/", "/x", "ann/x@", "ann/x@../y", "ann/x/y"):
        assert names.parse_owned_ref(broken) is None


def test_identity_variables_belong_to_the_platform() -> None:
    assert is_identity_env("TUNEPLANE_RUN_ID")
    assert is_identity_env("HF_HOME")
    assert not is_identity_env("HF_TOKEN")
    assert not is_identity_env("CUDA_LAUNCH_BLOCKING")
