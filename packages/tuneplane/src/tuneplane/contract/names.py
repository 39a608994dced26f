"""Names and references, checked before they become a path, a label or SQL. Standard library only."""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_SEGMENT = 63
SEGMENT_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_SEGMENT = re.compile(SEGMENT_PATTERN + r"\Z", re.ASCII)
_METHOD = re.compile(r"[a-z0-9][a-z0-9-]*/[a-z0-9][a-z0-9-]*\Z", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}\Z", re.ASCII)
_RUN_ID = re.compile(r"[0-9a-z]{16}\Z", re.ASCII)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
_RUN_REF = re.compile(
    r"run/(?P<run>[0-9a-z]{16})/(?P<kind>[a-z][a-z-]*)(?:@(?P<options>[a-z]+=[0-9]+(?:,[a-z]+=[0-9]+)*))?\Z", re.ASCII
)
_HUB_REF = re.compile(
    r"(?P<hub>hf|ms|tp):(?P<name>" + SEGMENT_PATTERN + r"(?:/" + SEGMENT_PATTERN + r")*)(?:@(?P<revision>[\w./-]+))?\Z",
    re.ASCII,
)


def is_segment(text: str) -> bool:
    """A name of one path segment: ASCII letters, digits, `.`, `_`, `-`; starts with a letter or digit; at most 63."""
    return len(text) <= MAX_SEGMENT and _SEGMENT.match(text) is not None and ".." not in text


def is_method_id(text: str) -> bool:
    """`<framework>/<method>`, for example `trl/kto`."""
    return len(text) <= 2 * MAX_SEGMENT and _METHOD.match(text) is not None


def is_sha256(text: str) -> bool:
    return _SHA256.match(text) is not None


def is_run_id(text: str) -> bool:
    """16 characters of lower-case base 32 (Crockford); sorts by creation time."""
    return _RUN_ID.match(text) is not None


def is_env_name(text: str) -> bool:
    return len(text) <= 128 and _ENV_NAME.match(text) is not None


class RunRef(NamedTuple):
    """`run/<id>/<kind>[@step=N,attempt=M]`: an artifact of an earlier run."""

    run: str
    kind: str
    step: int | None
    attempt: int | None


class HubRef(NamedTuple):
    """`hf:`, `ms:` or `tp:` reference with an optional revision."""

    hub: str
    name: str
    revision: str | None


class OwnedRef(NamedTuple):
    """`<owner>/<name>` with an optional `@<version>`: a dataset (with version) or a volume (without)."""

    owner: str
    name: str
    version: str | None


def parse_run_ref(text: str) -> RunRef | None:
    match = _RUN_REF.match(text)
    if match is None:
        return None
    options = dict(part.split("=", 1) for part in (match["options"] or "").split(",") if part)
    if not set(options) <= {"step", "attempt"}:
        return None
    step, attempt = options.get("step"), options.get("attempt")
    return RunRef(match["run"], match["kind"], int(step) if step else None, int(attempt) if attempt else None)


def parse_hub_ref(text: str) -> HubRef | None:
    match = _HUB_REF.match(text)
    if match is None or ".." in text:
        return None
    return HubRef(match["hub"], match["name"], match["revision"])


def parse_owned_ref(text: str) -> OwnedRef | None:
    body, _, version = text.partition("@")
    owner, slash, name = body.partition("/")
    if not slash or not is_segment(owner) or not is_segment(name):
        return None
    if "@" in text and not is_segment(version):
        return None
    return OwnedRef(owner, name, version or None)
