"""A hub that refuses: what huggingface_hub and transformers make of its answers is theirs, and real."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

RESTRICTED = "Access to model org/gated is restricted. You must have access to it and be authenticated to access it. Please log in."
# Part of the path -> status, X-Error-Code, X-Error-Message, as huggingface.co answers (huggingface_hub/utils/_http.py reads them).
ANSWERS = {
    "/org/gated/": (401, "GatedRepo", RESTRICTED),
    "/org/forbidden/": (403, "GatedRepo", RESTRICTED),
    "/org/missing/": (401, "RepoNotFound", "Repository not found"),
    "/org/revised/": (404, "RevisionNotFound", "Invalid rev id: v9"),
}


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, code, message = next(
            (answer for part, answer in ANSWERS.items() if part in self.path), (404, "EntryNotFound", "Entry not found")
        )
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", message)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET  # noqa: N815 - the base class's name

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Silent: what counts is what the client prints."""


@contextmanager
def refusing_hub() -> Iterator[str]:
    """The address of the hub while it answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
