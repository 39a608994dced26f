"""A console of many nodes may have as many files open as its machine allows it."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from tuneplane_server.open_files import WANTED, allow_open_files


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_own_limit_is_raised_to_the_machines_and_never_lowered(limits: tuple[int, int]) -> None:
    _soft, hard = limits
    most = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    assert allow_open_files() == most
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, hard)
    assert allow_open_files() == most
