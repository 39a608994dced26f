"""Allow-lists of images: whether a reference lies in what a pattern names.

A pattern is a reference with `*`: within a part of the path it stands for any characters, as the last part for everything
below. Without a tag or a digest it means every one; `…@sha256:*` means only references that are pinned by digest. Names are
compared in Docker's full form (`ubuntu` is `docker.io/library/ubuntu`). A reference that begins with `/` is the path of a
Python environment and is compared as a path.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_PATTERN = 300
ANY_DIGEST = "sha256:*"
_PATTERN = re.compile(r"[A-Za-z0-9*/][A-Za-z0-9._/*:-]*(@sha256:(\*|[0-9a-f]{64}))?")


@dataclass(frozen=True)
class _Reference:
    name: str
    tag: str | None
    digest: str | None


def is_pattern(text: str) -> bool:
    """Whether `text` can stand in an allow-list: a reference or a path, with `*` where it is left open."""
    if len(text) > MAX_PATTERN or not _PATTERN.fullmatch(text):
        return False
    name = _split(text).name
    return "//" not in name and not name.endswith("/") and ".." not in name.split("/")


def allowed(image: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns names the image."""
    return any(_matches(image, pattern) for pattern in patterns)


def _matches(image: str, pattern: str) -> bool:
    if image.startswith("/") or pattern.startswith("/"):
        return _expression(pattern).fullmatch(posixpath.normpath(image)) is not None
    have, want = _split(image), _split(pattern)
    if _expression(_full(want.name)).fullmatch(_full(have.name)) is None:
        return False
    if want.digest is not None and have.digest != want.digest and (want.digest != ANY_DIGEST or have.digest is None):
        return False
    if want.tag is None:
        return True
    # Whoever pulls by digest does not look at the tag beside it: it proves nothing unless the digest is asked for too.
    if have.digest is not None and want.digest is None:
        return False
    return _expression(want.tag).fullmatch(have.tag or "latest") is not None


def _split(reference: str) -> _Reference:
    if reference.startswith("/"):
        return _Reference(reference, None, None)
    rest, at, digest = reference.partition("@")
    path, slash, last = rest.rpartition("/")
    name, colon, tag = last.partition(":")
    return _Reference(f"{path}{slash}{name}", tag if colon else None, digest if at else None)


def _full(name: str) -> str:
    """The name with its registry, as Docker reads it: the first part is one if it looks like a host."""
    first, slash, rest = name.partition("/")
    if slash and (first == "localhost" or any(mark in first for mark in ".:*")):
        return f"{first.lower()}/{rest}"
    if name == "*":
        return "*/*"
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"


def _expression(pattern: str) -> re.Pattern[str]:
    below = pattern.endswith("/*")
    parts = (pattern[:-1] if below else pattern).split("*")
    return re.compile("[^/]*".join(re.escape(part) for part in parts) + (".+" if below else ""))
