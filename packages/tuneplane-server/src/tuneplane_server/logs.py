"""The console's own log: one line per event on standard error, logfmt or JSON. Tracebacks never show values: those may be secret."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

# What looks like one of our tokens, in whatever text it turns up.
_TOKEN = re.compile(r"\btpi?_[A-Za-z0-9_-]{20,}|(?<=[?&]token=)[^&\s\"']+|(?<=://)[^/@\s:]+:[^/@\s]+(?=@)")
_MASK = "***"


def configure_logs(level: str = "info", form: str = "text") -> None:
    """Set up structlog and the standard library's loggers (uvicorn, SQLAlchemy) alike."""
    renderer: Any = (
        structlog.processors.JSONRenderer(sort_keys=True, ensure_ascii=False)
        if form == "json"
        else structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], bool_as_flag=False)
    )
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _mask_secrets,
    ]
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
            foreign_pre_chain=shared,
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers = []
        logging.getLogger(name).propagate = True
    # Addresses of requests can hold what is private; those of webhooks are often the whole secret of a chat room.
    for name in ("uvicorn.access", "httpx2", "httpcore2", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # One line per plugin of its own would bury what a first start has to say.
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)


def _mask_secrets(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = _TOKEN.sub(_MASK, value)
    return event
