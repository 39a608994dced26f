"""Webhooks after Standard Webhooks 1.0 (https://github.com/standard-webhooks/standard-webhooks): signing, when to try again, and
which addresses a console never calls by itself. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

SECRET_PREFIX = "whsec_"  # noqa: S105 - what a secret begins with
SECRET_BYTES = 32
# After each failed try; then it has failed, and somebody may send it again by hand. About a day and a half in all.
RESTS = tuple(
    timedelta(seconds=seconds) for seconds in (5, 60, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 14 * 3600)
)
MAX_TRIES = len(RESTS) + 1
MAX_RETRY_AFTER = timedelta(hours=24)
GONE = 410  # the receiver wants nothing any more
_MAX_URL = 2000
_HOST = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")
# Well-known prefix of addresses that stand for an IPv4 address behind a translator (RFC 6052).
_NAT64 = IPv6Network("64:ff9b::/96")
_SHARED = IPv4Network("100.64.0.0/10")  # of carriers and cloud networks: neither private nor global

type Address = IPv4Address | IPv6Address


@dataclass(frozen=True)
class Target:
    """Where a URL points. `host` is a name or an address, in lower case, without brackets, as it is looked up (IDNA)."""

    scheme: str
    host: str
    port: int


class UrlError(ValueError):
    """The text cannot be the address of a webhook; `why` is a short stable word."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def make_secret(random: bytes) -> str:
    """`random`: `SECRET_BYTES` of it."""
    return SECRET_PREFIX + base64.b64encode(random).decode()


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: `v1,` and the base64 of the HMAC-SHA256 over `<id>.<timestamp>.<body>`."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    signed = b".".join([message_id.encode(), str(timestamp).encode(), body])
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def headers(secret: str, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(secret, message_id, timestamp, body),
    }


def rest_after(tries: int, retry_after: timedelta | None = None) -> timedelta | None:
    """How long to rest after so many failed tries; None: it is given up. `retry_after`: what the receiver asked for."""
    if tries > len(RESTS):
        return None
    rest = RESTS[max(tries, 1) - 1]
    return rest if retry_after is None else max(rest, min(retry_after, MAX_RETRY_AFTER))


def target(url: str) -> Target:
    """Raises `UrlError`: too long, no http(s) URL, credentials or a fragment in it."""
    if len(url) > _MAX_URL or any(ord(character) <= 32 or ord(character) == 127 for character in url):
        raise UrlError("form")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UrlError("form") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or "\\" in url or "%" in parts.netloc:
        raise UrlError("form")
    if "@" in parts.netloc:
        raise UrlError("credentials")
    if parts.fragment:
        raise UrlError("fragment")
    try:
        host = _encoded(parts.hostname.rstrip("."))
    except ValueError:
        raise UrlError("form") from None
    return Target(parts.scheme, host, port or (443 if parts.scheme == "https" else 80))


def _encoded(host: str) -> str:
    """A host as it is looked up, in lower case. Raises `ValueError` for what no resolver could be asked."""
    if ":" in host:  # an address
        return host.lower()
    encoded = host.encode("idna").decode().lower()
    if not encoded or not _HOST.issuperset(encoded):
        raise ValueError(f"{host[:80]} is no host")
    return encoded


def is_allowed(where: Target, allowed: Mapping[str, int | None]) -> bool:
    """Whether an administrator has named the host; `allowed`: host -> port, None for every port."""
    return where.host in allowed and allowed[where.host] in (None, where.port)


def parse_hosts(text: str) -> dict[str, int | None]:
    """`hooks.example.org, 10.0.0.5:8080, [fd00::1]:8080`. Raises `ValueError`."""
    found: dict[str, int | None] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        parts = urlsplit(f"//{part}")
        if not parts.hostname or parts.path or parts.query or "@" in part:
            raise ValueError(f"{part[:80]} is no host or host:port")
        found[_encoded(parts.hostname)] = parts.port
    return found


def is_public(address: Address) -> bool:
    """Whether an address is one that anybody on the Internet may call, also where it stands for another one."""
    inner = _inside(address)
    if inner is not None and (not is_public(inner) or address in _NAT64):
        return is_public(inner)
    shared = isinstance(address, IPv4Address) and address in _SHARED
    site_local = isinstance(address, IPv6Address) and address.is_site_local
    return address.is_global and not (
        address.is_multicast
        or address.is_reserved
        or address.is_unspecified
        or address.is_loopback
        or shared
        or site_local
    )


def _inside(address: Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address stands for: mapped, 6to4, Teredo or behind a translator."""
    if not isinstance(address, IPv6Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None


def parse_address(text: str) -> Address | None:
    """None for what is a name. A zone (`fe80::1%eth0`) goes: it is link-local anyway."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None
