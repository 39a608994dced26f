"""Canonical digests. One rule everywhere: SHA-256 over RFC 8785 (JCS) canonical JSON, lower-case hex.

A file's digest is SHA-256 of its bytes. A tree's digest is the digest of the JSON object
`{relative POSIX path: file digest}`. A recipe's digest is the digest of
`{"manifest": manifest_digest, "template": template_digest}` (docs/reference/digests).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def canonical_json(value: Any) -> bytes:
    """RFC 8785 bytes of a JSON value. NaN, infinities and integers beyond 2**53 raise `ValueError`."""
    import rfc8785

    return rfc8785.dumps(value)


def digest_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest_json(value: Any) -> str:
    return digest_bytes(canonical_json(value))


def digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_tree(files: Mapping[str, bytes]) -> str:
    """Digest of a set of files given as relative POSIX path -> content."""
    return digest_json({name: digest_bytes(data) for name, data in files.items()})


def recipe_digest(manifest_digest: str, template_digest: str) -> str:
    return digest_json({"manifest": manifest_digest, "template": template_digest})
