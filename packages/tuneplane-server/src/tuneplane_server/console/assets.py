"""The static files: kept in memory, addressed by the hash of the whole tree, cached by browsers for a year.

One hash for all of them, in front of the path: a relative import in a module or a `url()` in a style sheet then stays
inside the same version without any rewriting.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tuneplane_server.console.i18n import _

PREFIX = "/static"
FOREVER = "public, max-age=31536000, immutable"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
}
_COMPRESSIBLE = {".css", ".js", ".svg", ".txt", ".md"}


@dataclass(frozen=True)
class StaticFile:
    """One file: its bytes, and the same compressed where that helps (made when first asked for)."""

    content: bytes
    suffix: str

    @property
    def media_type(self) -> str:
        return _MEDIA_TYPES[self.suffix]

    @cached_property
    def compressed(self) -> bytes | None:
        return gzip.compress(self.content, mtime=0) if self.suffix in _COMPRESSIBLE else None


@dataclass(frozen=True)
class StaticTree:
    """Every file below `directory`, read once. Addresses of another version get today's file, uncached."""

    directory: Path
    files: dict[str, StaticFile] = field(init=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        files: dict[str, StaticFile] = {}
        total = hashlib.sha256()
        for path in sorted(self.directory.rglob("*")):
            if path.is_file() and path.suffix in _MEDIA_TYPES:
                name, content = path.relative_to(self.directory).as_posix(), path.read_bytes()
                files[name] = StaticFile(content, path.suffix)
                total.update(f"{name}\0{len(content)}\0".encode() + content)
        object.__setattr__(self, "files", files)
        object.__setattr__(self, "digest", total.hexdigest()[:16])

    def url(self, name: str) -> str:
        """The address of a file; raises `KeyError` for a file that is not there, so that a typo fails a test."""
        self.files[name]
        return f"{PREFIX}/{self.digest}/{name}"

    async def serve(self, request: Request) -> Response:
        """Answer `GET /static/{digest}/{name}`."""
        found = self.files.get(request.path_params["name"])
        if found is None:
            return PlainTextResponse(_("there is nothing at this address") + "\n", 404)
        current = request.path_params["digest"] == self.digest
        headers = {"Cache-Control": FOREVER if current else "no-cache", "Vary": "Accept-Encoding"}
        body = found.content
        if found.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            body, headers["Content-Encoding"] = found.compressed, "gzip"
        return Response(body, headers=headers, media_type=found.media_type)
