"""One call to a webhook: to an address that was looked at, bounded in time and size, never following anybody elsewhere.

The name is resolved once, every address that it gives must be public (or the host named by an administrator), and the call goes to
that very address, so that a name which points elsewhere a moment later gains nothing. TLS still checks the name. The environment's
proxies are not used: behind one nobody could say which address is called.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tuneplane_server import __version__
from tuneplane_server.domain import webhooks
from tuneplane_server.domain.webhooks import Target, UrlError

if TYPE_CHECKING:
    import httpx2

TOTAL_SECONDS = 15.0
CONNECT_SECONDS = 5.0
ANSWER_BYTES = 16 * 1024  # more of an answer is not read
ERROR_CHARACTERS = 200
# A resolver may take half a minute for a name of a dead server; the loop's own threads have other things to do.
_resolvers = ThreadPoolExecutor(4, thread_name_prefix="webhook-resolver")

type Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


@dataclass(frozen=True)
class Sent:
    """`status` None: no answer, for `error`. `retry_after`: what the receiver asked for."""

    status: int | None
    error: str
    milliseconds: int
    retry_after: timedelta | None = None

    @property
    def delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def gone(self) -> bool:
        return self.status == webhooks.GONE

    def to_json(self) -> dict[str, Any]:
        return {"status": self.status, "error": self.error, "milliseconds": self.milliseconds}


class ForbiddenAddressError(Exception):
    """The host points where a console does not call; the text says where."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """Addresses of a host by the machine's own resolver. Raises OSError."""
    loop = asyncio.get_running_loop()
    look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await loop.run_in_executor(_resolvers, look_up)
    return list(dict.fromkeys(str(item[4][0]) for item in found))


class Sender:
    """`allowed`: hosts that may be private, as `webhooks.parse_hosts` gives them."""

    def __init__(
        self, allowed: Mapping[str, int | None], resolve_: Resolve = resolve, seconds: float = TOTAL_SECONDS
    ) -> None:
        self._allowed, self._resolve, self._seconds = allowed, resolve_, seconds

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Sent:
        """Never raises: whatever goes wrong is a try that failed, or the delivery would wait for ever."""
        begun = time.monotonic()
        try:
            async with asyncio.timeout(self._seconds):
                status, retry_after = await self._post(url, headers, body)
            error = "" if 200 <= status < 300 else f"answered {status}"
            return Sent(status, error, _since(begun), retry_after)
        except TimeoutError:
            return Sent(None, f"no answer within {self._seconds:g} s", _since(begun))
        except (ForbiddenAddressError, UrlError, OSError) as error:
            return Sent(None, str(error)[:ERROR_CHARACTERS] or type(error).__name__, _since(begun))
        except Exception as error:  # noqa: BLE001 - said in the log of the webhook
            return Sent(None, f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS], _since(begun))

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes) -> tuple[int, timedelta | None]:
        import httpx2

        where = webhooks.target(url)
        address = await self._address(where)
        parts = urlsplit(url)
        netloc = f"[{address}]:{where.port}" if ":" in address else f"{address}:{where.port}"
        sent = {
            **headers,
            "host": _host(where, parts.port),
            "content-type": "application/json",
            "user-agent": f"tuneplane/{__version__}",
            "accept-encoding": "identity",  # an answer is read to a bound, and a bomb would count after it
        }
        timeout = httpx2.Timeout(self._seconds, connect=CONNECT_SECONDS)
        async with (
            httpx2.AsyncClient(follow_redirects=False, trust_env=False, timeout=timeout) as client,
            client.stream(
                "POST",
                parts._replace(netloc=netloc).geturl(),
                content=body,
                headers=sent,
                extensions={"sni_hostname": where.host},
            ) as response,
        ):
            await _drain(response)
            return response.status_code, _retry_after(response.headers.get("retry-after", ""))

    async def _address(self, where: Target) -> str:
        """The first address of the host, when all of them may be called."""
        addresses = await self._resolve(where.host, where.port)
        if not addresses:
            raise ForbiddenAddressError(f"{where.host} has no address")
        if not webhooks.is_allowed(where, self._allowed):
            if where.scheme != "https":
                raise ForbiddenAddressError("plain http is only for hosts of TUNEPLANE_WEBHOOK_HOSTS")
            for text in addresses:
                address = webhooks.parse_address(text)
                if address is None or not webhooks.is_public(address):
                    raise ForbiddenAddressError(f"{where.host} points to {text}, which is not a public address")
        return addresses[0].partition("%")[0]


async def _drain(response: httpx2.Response) -> None:
    """A little of the answer, so that a receiver that writes one is not cut off for nothing; the rest is not waited for."""
    read = 0
    async for piece in response.aiter_raw():
        read += len(piece)
        if read > ANSWER_BYTES:
            return


def _host(where: Target, port: int | None) -> str:
    """The head of that name: the host as it is looked up, and the port when the URL names one."""
    host = f"[{where.host}]" if ":" in where.host else where.host
    return host if port is None else f"{host}:{port}"


def _retry_after(text: str) -> timedelta | None:
    """Seconds or a date (RFC 9110 §10.2.3); None for anything else."""
    if text.isdecimal() and len(text) <= 9:
        return timedelta(seconds=int(text))
    try:
        when = parsedate_to_datetime(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return max(timedelta(0), when - datetime.now(UTC))


def _since(begun: float) -> int:
    return round(1000 * (time.monotonic() - begun))
