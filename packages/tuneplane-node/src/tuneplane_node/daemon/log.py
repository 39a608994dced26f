"""The daemon's log on standard error: a line a message, for people or as JSON. Standard library only: a structured logger costs 7 MB."""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import UTC, datetime
from typing import override

from tuneplane_node.settings import LogFormat

_QUIET = ("httpx2", "httpcore2", "httpcore", "asyncio", "uvicorn.access")  # they tell of every request


def set_up_log(form: LogFormat) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in (*_QUIET, "uvicorn", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.WARNING)


class _Text(logging.Formatter):
    converter = time.gmtime
    default_msec_format = "%s.%03dZ"
    default_time_format = "%Y-%m-%dT%H:%M:%S"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")


class _Json(logging.Formatter):
    @override
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
