"""Base of every model of the contract: unknown fields refused, finite numbers only, schema built on first use."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from tuneplane.contract import names
from tuneplane.i18n import _


class Model(BaseModel):
    """Strict and immutable; validators are built lazily so that importing the contract stays cheap."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,
        populate_by_name=True,
        ser_json_inf_nan="strings",
    )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON value: aliases on, fields that are None left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def _segment(text: str) -> str:
    if not names.is_segment(text):
        raise ValueError(_("must be 1 to 63 of A-Z a-z 0-9 . _ - and start with a letter or digit"))
    return text


def _method(text: str) -> str:
    if not names.is_method_id(text):
        raise ValueError(_("must be <framework>/<method>"))
    return text


def _sha256(text: str) -> str:
    if not names.is_sha256(text):
        raise ValueError(_("must be 64 lower-case hex digits"))
    return text


def _run_id(text: str) -> str:
    if not names.is_run_id(text):
        raise ValueError(_("must be a run id"))
    return text


def _finite(value: Any) -> Any:
    """A JSON value whose numbers are all finite; JSON has no NaN, and a digest of one would not exist."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, float) and not isfinite(item):
            raise PydanticCustomError(
                "finite_number", "{text}", {"text": _("holds NaN or an infinity; numbers must be finite")}
            )
        if isinstance(item, dict):
            if not all(isinstance(key, str) for key in item):
                raise ValueError(_("holds a key that is not text"))
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
        elif not isinstance(item, str | int | float | bool | None):
            raise ValueError(_("holds a {kind}, which JSON does not have").format(kind=type(item).__name__))
    return value


Segment = Annotated[
    str, AfterValidator(_segment), Field(json_schema_extra={"pattern": f"^{names.SEGMENT_PATTERN}$", "maxLength": 63})
]
MethodId = Annotated[str, AfterValidator(_method)]
Sha256 = Annotated[str, AfterValidator(_sha256), Field(json_schema_extra={"pattern": "^[0-9a-f]{64}$"})]
RunId = Annotated[str, AfterValidator(_run_id)]
Json = Annotated[Any, AfterValidator(_finite)]
