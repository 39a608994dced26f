"""What the calls of telemetry share: answers encoded without a model (see `shapes`), described with one."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import Response
from pydantic import BaseModel


def described(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """For the description of the API; see `shapes`."""
    return {200: {"model": model}}


def json_answer(answer: Any) -> Response:
    return Response(msgspec.json.encode(answer), media_type="application/json", headers={"Cache-Control": "no-store"})
