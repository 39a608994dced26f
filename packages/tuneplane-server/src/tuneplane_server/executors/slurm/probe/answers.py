"""What a probe's job tells: in its file when that arrives, and in its exit code when it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

type StorageState = Literal["ok", "missing", "other", "forbidden", "read-only"]
_STORAGE: tuple[StorageState, ...] = ("ok", "missing", "other", "forbidden", "read-only")
_TOLD, _HTTP, _CONTAINER = 64, 8, 16


@dataclass(frozen=True)
class ExitVerdict:
    """The exit code of `on_node.sh`. `http`, `container`: whether that is fine there."""

    storage: StorageState
    http: bool
    container: bool

    @classmethod
    def of(cls, code: int | None) -> ExitVerdict | None:
        """None when the script did not come to its end."""
        if code is None or not code & _TOLD or code >= 2 * _TOLD or (code & 7) >= len(_STORAGE):
            return None
        return cls(_STORAGE[code & 7], not code & _HTTP, not code & _CONTAINER)


@dataclass(frozen=True)
class Answer:
    """`out/answer` of `on_node.sh`. `time`: Unix seconds of the node's clock; `tmp_free_gb`: of its /tmp; None: it could not tell."""

    nonce: str
    host: str
    user: str
    uid: str
    file_system: str
    tmp_free_gb: float | None
    http_tool: str
    http_status: int
    http_said: str
    container: str
    container_problem: str
    cards: str
    products: str
    time: int | None

    @classmethod
    def of(cls, told: Mapping[str, str]) -> Answer:
        free = _number(told.get("tmp_free_kb", ""))
        return cls(
            nonce=told.get("nonce", ""),
            host=told.get("host", "") or "?",
            user=told.get("user", ""),
            uid=told.get("uid", ""),
            file_system=told.get("file_system", ""),
            tmp_free_gb=None if free is None else free / 1024**2,
            http_tool=told.get("http_tool", ""),
            http_status=_number(told.get("http_status", "")) or 0,
            http_said=told.get("http_said", ""),
            container=told.get("container", ""),
            container_problem=told.get("container_problem", ""),
            cards=told.get("cards", ""),
            products=told.get("products", "").strip("; "),
            time=_number(told.get("time", "")),
        )


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
