"""One file as an answer: whole or a range (RFC 9110), from a descriptor that is closed whatever happens."""

from __future__ import annotations

import asyncio
import base64
import os
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tuneplane_server.domain.artifact_paths import ByteRange, parse_range
from tuneplane_server.features.artifacts.service import OpenFile

BLOCK = 256 * 1024


class FileResponse(Response):
    """Strong ETag = SHA-256 when known, else a weak one from size, time and inode."""

    media_type = "application/octet-stream"

    def __init__(self, file: OpenFile, name: str, headers: Headers) -> None:
        self._file = file
        etag = _etag(file)
        size = file.facts.size
        span, status = ByteRange(0, size), 200
        if _matches(headers.get("if-none-match"), etag):
            span, status = ByteRange(0, 0), 304
        elif "range" in headers and _same(headers.get("if-range"), etag):
            try:
                found = parse_range(headers["range"], size)
            except ValueError:
                span, status = ByteRange(0, 0), 416
            else:
                span, status = (span, 200) if found is None else (found, 206)
        self._span = span
        super().__init__(status_code=status, headers=_headers(file, name, etag, span, status))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            position = self._span.start
            while position < self._span.stop and scope["method"] != "HEAD":
                size = min(BLOCK, self._span.stop - position)
                block = await asyncio.to_thread(os.pread, self._file.descriptor, size, position)
                if not block:
                    raise ConnectionAbortedError("the file became shorter while it was sent")
                position += len(block)
                await send({"type": "http.response.body", "body": block, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            os.close(self._file.descriptor)


def _headers(file: OpenFile, name: str, etag: str, span: ByteRange, status: int) -> dict[str, str]:
    size = file.facts.size
    headers = {"ETag": etag, "Accept-Ranges": "bytes", "Cache-Control": "private, no-cache"}
    if status == 416:
        return headers | {"Content-Range": f"bytes */{size}", "Content-Length": "0"}
    if status == 304:
        return headers
    headers |= {
        "Content-Length": str(span.stop - span.start),
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
    }
    if status == 206:
        headers["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{size}"
    if file.sha256 is not None:  # RFC 9530: of the whole file, also when a part is sent
        headers["Repr-Digest"] = f"sha-256=:{base64.b64encode(bytes.fromhex(file.sha256)).decode()}:"
    return headers


def _etag(file: OpenFile) -> str:
    if file.sha256 is not None:
        return f'"{file.sha256}"'
    return f'W/"{file.facts.size:x}-{file.facts.modified_ns:x}-{file.facts.inode:x}"'


def _same(if_range: str | None, etag: str) -> bool:
    """Whether a part belongs to what the client has: only a strong tag proves it (RFC 9110 §13.1.5)."""
    return if_range is None or (if_range == etag and not etag.startswith("W/"))


def _matches(header: str | None, etag: str) -> bool:
    if header is None:
        return False
    wanted = [one.strip().removeprefix("W/") for one in header.split(",")]
    return "*" in wanted or etag.removeprefix("W/") in wanted
