"""Parts of stored JobSpecs, for who reads many of them: the rest of a spec, which may be large, is skipped and made into nothing."""

from __future__ import annotations

from typing import Any

import msgspec


class _Resources(msgspec.Struct):
    pools: list[dict[str, Any]]


class _Inner(msgspec.Struct):
    resources: _Resources


class _Spec(msgspec.Struct):
    spec: _Inner


_DECODER = msgspec.json.Decoder(_Spec)


def pools_of_spec(text: str) -> list[dict[str, Any]]:
    """`spec.resources.pools` of a JobSpec as it is stored."""
    return _DECODER.decode(text).spec.resources.pools
