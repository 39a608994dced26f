"""Spans around what a console does, when OpenTelemetry is on; else nothing. Imports nothing of it: most consoles have none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

type Spans = Callable[[str, Mapping[str, Any]], AbstractContextManager[Any]]

_spans: Spans | None = None


def use(spans: Spans | None) -> None:
    """Who makes spans from now on; None: nobody."""
    global _spans
    _spans = spans


def span(name: str, **attributes: Any) -> AbstractContextManager[Any]:
    """A span around a piece of work; what is raised inside is noted on it and goes on."""
    return nullcontext() if _spans is None else _spans(name, attributes)
