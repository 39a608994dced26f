"""Opaque cursors of listings: base64url of a small JSON array. A cursor that we did not make is refused."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from tuneplane.i18n import _
from tuneplane_server.web.problems import ProblemError, refused


def encode_cursor(*position: str | int) -> str:
    return base64.urlsafe_b64encode(json.dumps(position, separators=(",", ":")).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, *types: type[str | int]) -> tuple[Any, ...]:
    """The position as values of `types`; raises the problem `request-invalid` for anything else."""
    try:
        if len(cursor) > 500:
            raise ValueError("too long")
        position = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        if not isinstance(position, list) or [type(item) for item in position] != list(types):
            raise ValueError("not ours")
        if any(isinstance(item, str) and b"\0" in item.encode() for item in position):  # nor half a character
            raise ValueError("no database takes that")
    except (ValueError, binascii.Error, RecursionError):
        raise _bad() from None
    return tuple(position)


def _bad() -> ProblemError:
    return refused(
        "request-invalid",
        _("the cursor is not one this console gave"),
        _("start again without a cursor"),
        field="cursor",
    )
