"""What a failed TLS connection is about. TLS that is tried against plain HTTP, and the reverse, look like broken connections.

Whoever finds it out often has no reader: a console's background looks at nodes, and pages show what it found. So the words are
English until they are shown (`tls_sentences.in_readers_language`).
"""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import urlsplit

import httpx2

from tuneplane_node.tls_sentences import PLAIN, TLS, UNTRUSTED


async def tls_trouble(address: str, problem: Exception, seconds: float) -> str:
    """A sentence in English, empty when TLS is not what is wrong. `address`: the URL that failed with `problem`. At most `seconds` long."""
    cause = _ssl_cause(problem)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return UNTRUSTED.format(why=cause.verify_message)
    if isinstance(cause, ssl.SSLError):
        return PLAIN if await _connects(address, None, seconds) else str(cause)
    broken = isinstance(problem, httpx2.RemoteProtocolError | httpx2.ReadError)
    if broken and address.startswith("http://") and await _connects(address, _any_certificate(), seconds):
        return TLS
    return ""


def _any_certificate() -> ssl.SSLContext:
    """Only for seeing whether it is TLS: nothing is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _connects(address: str, context: ssl.SSLContext | None, seconds: float) -> bool:
    parts = urlsplit(address)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(seconds):
            _reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context)
    except (OSError, TimeoutError, ValueError):
        return False
    writer.close()
    return True


def _ssl_cause(problem: BaseException | None) -> ssl.SSLError | None:
    for _step in range(8):
        if problem is None or isinstance(problem, ssl.SSLError):
            return problem
        problem = problem.__cause__ or problem.__context__
    return None
