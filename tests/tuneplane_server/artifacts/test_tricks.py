"""Paths that become another path when they are decoded once more."""

from __future__ import annotations

import pytest

from tuneplane_server.domain.artifact_paths import is_safe
from tuneplane_server.features.artifacts.files import hides_a_trick


@pytest.mark.parametrize(
    "path", ["%2e%2e/a", "a/%2e%2e%2fb", "%252e%252e/a", "..%5ca", "a%00", "%2fetc", "%25252e%25252e/a"]
)
def test_encoded_tricks_are_seen(path):
    assert is_safe(path)
    assert hides_a_trick(path)


@pytest.mark.parametrize("path", ["a%20b", "100%", "a%2Fb", "%zz"])
def test_harmless_percents_are_no_trick(path):
    assert not hides_a_trick(path)
