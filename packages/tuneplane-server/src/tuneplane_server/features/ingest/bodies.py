"""The bytes of a request -> the bytes of its NDJSON, never more than the wire's limit whatever the body claims to be."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from compression import zstd

from tuneplane.contract.words import MAX_BATCH_BYTES

# A frame may ask its reader for a window of this size (log2 bytes): 8 MiB, twice the largest batch.
WINDOW_LOG = 23
_GZIP = 16 + zlib.MAX_WBITS
ENCODINGS = ("gzip", "zstd", "identity")


class BodyError(ValueError):
    """`kind`: `encoding` (unknown Content-Encoding), `malformed` (not what it claims), `large` (over the limit)."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def inflate(body: bytes, encoding: str, limit: int = MAX_BATCH_BYTES) -> bytes:
    """Raises `BodyError`. Several gzip members or zstd frames after one another are one body."""
    name = encoding.strip().lower() or "identity"
    if name == "identity":
        if len(body) > limit:
            raise _large(limit)
        return body
    if name == "gzip":
        return _stream(body, lambda: zlib.decompressobj(_GZIP), limit)
    if name == "zstd":
        return _stream(body, _zstd, limit)
    raise BodyError("encoding", f"Content-Encoding is {name[:40]!r}; send one of {', '.join(ENCODINGS)}")


def _zstd() -> Any:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: WINDOW_LOG})


def _stream(body: bytes, make: Callable[[], Any], limit: int) -> bytes:
    parts: list[bytes] = []
    size, rest = 0, body
    try:
        while rest:
            decoder = make()
            # One byte more than allowed is asked for: enough to know, and all a bomb ever gets.
            part = decoder.decompress(rest, limit + 1 - size)
            size += len(part)
            if size > limit:
                raise _large(limit)
            if not decoder.eof:
                raise BodyError("malformed", "the compressed body ends too early")
            parts.append(part)
            rest = decoder.unused_data
    except (zlib.error, zstd.ZstdError, EOFError) as error:
        raise BodyError("malformed", f"the body is not what Content-Encoding says: {error}") from None
    return b"".join(parts)


def _large(limit: int) -> BodyError:
    return BodyError("large", f"the batch has more than {limit} bytes")
