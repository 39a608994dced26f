from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain.images import allowed, is_pattern

DIGEST = "sha256:" + "a1" * 32
OTHER = "sha256:" + "b2" * 32


@pytest.mark.parametrize(
    ("image", "pattern", "fits"),
    [
        ("registry.example.org/train/trl:1.16", "registry.example.org/train/*", True),
        ("registry.example.org/train/sub/trl:1.16", "registry.example.org/train/*", True),
        ("registry.example.org/train", "registry.example.org/train/*", False),
        ("registry.example.org/training/trl:1", "registry.example.org/train/*", False),
        ("evil.example.org/registry.example.org/train/trl:1", "registry.example.org/train/*", False),
        ("registry.example.org.evil.net/train/trl:1", "registry.example.org/train/*", False),
        ("registryXexample.org/train/trl:1", "registry.example.org/train/*", False),
        ("REGISTRY.example.org/train/trl:1", "registry.example.org/train/*", True),
        ("registry.example.org:5000/train/trl:1", "registry.example.org:5000/train/*", True),
        ("registry.example.org:5000/train/trl:1", "registry.example.org/train/*", False),
        ("localhost/a:1", "localhost/*", True),
        # one part left open stays one part
        ("r.io/team-a/trl:1", "r.io/team-*/trl", True),
        ("r.io/team-a/b/trl:1", "r.io/team-*/trl", False),
        ("r.io/team-a/trl:1", "*.io/team-a/trl", True),
        # Docker's short names
        ("ubuntu:24.04", "docker.io/library/*", True),
        ("ubuntu:24.04", "ubuntu", True),
        ("team/ubuntu:24.04", "docker.io/library/*", False),
        ("pytorch/pytorch:2.9", "docker.io/pytorch/*", True),
        ("anything:1", "*", True),
        ("r.io/a/b:1", "*", True),
        # tags
        ("r.io/trl:1.16", "r.io/trl:1.16", True),
        ("r.io/trl:1.16-dev", "r.io/trl:1.16", False),
        ("r.io/trl:1.16-dev", "r.io/trl:1.16*", True),
        ("r.io/trl", "r.io/trl:latest", True),
        ("r.io/trl", "r.io/trl:1", False),
        # digests
        (f"r.io/trl@{DIGEST}", "r.io/trl", True),
        (f"r.io/trl@{DIGEST}", "r.io/*@sha256:*", True),
        (f"r.io/trl:1@{DIGEST}", "r.io/*@sha256:*", True),
        ("r.io/trl:1", "r.io/*@sha256:*", False),
        (f"r.io/trl@{DIGEST}", f"r.io/trl@{DIGEST}", True),
        (f"r.io/trl@{OTHER}", f"r.io/trl@{DIGEST}", False),
        ("r.io/trl:1", f"r.io/trl@{DIGEST}", False),
        (f"r.io/trl:1@{OTHER}", "r.io/trl:1", False),  # the tag beside a digest proves nothing
        (f"r.io/trl:1@{OTHER}", "r.io/trl:1@sha256:*", True),
        (f"r.io/trl:2@{OTHER}", "r.io/trl:1@sha256:*", False),
        # environments
        ("/srv/runtimes/trl-1.16", "/srv/runtimes/*", True),
        ("/srv/runtimes/../../home/eve/env", "/srv/runtimes/*", False),
        ("/srv/runtimes/trl-1.16", "srv/runtimes/*", False),
        ("srv/runtimes/trl:1", "/srv/runtimes/*", False),
        ("/srv/runtimes/trl-1.16", "*", False),
    ],
)  # fmt: skip
def test_what_a_pattern_names(image: str, pattern: str, fits: bool) -> None:
    assert is_pattern(pattern)
    assert allowed(image, [pattern]) is fits
    assert allowed(image, ["r.invalid/none", pattern]) is fits
    assert not allowed(image, [])


@pytest.mark.parametrize(
    "text",
    ["", "a b", "a//b", "a/", "../a", "/srv/../etc/*", "r.io/a@sha256:zz", "r.io/a@sha512:*", "a" * 301, "r.io/$(x)", "é"],
)  # fmt: skip
def test_what_is_no_pattern(text: str) -> None:
    assert not is_pattern(text)


@given(st.text(alphabet="abc./:*-@", max_size=20), st.text(alphabet="abc./:*-@", max_size=20))
def test_no_text_breaks_it(image: str, pattern: str) -> None:
    assert allowed(image, [pattern]) in (True, False)


@given(st.from_regex(r"[a-z]{1,5}(/[a-z]{1,5}){0,3}(:[a-z0-9.]{1,5})?", fullmatch=True))
def test_an_image_names_itself(image: str) -> None:
    assert is_pattern(image)
    assert allowed(image, [image])
