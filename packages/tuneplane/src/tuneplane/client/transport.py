"""The one place that makes HTTP clients: timeouts, proxies, certificate authorities, headers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tuneplane import __version__
from tuneplane.client.errors import UnreachableError
from tuneplane.i18n import _, current_language
from tuneplane.quoted_words import system_words

if TYPE_CHECKING:
    import httpx2

TIMEOUT_VARIABLE = "TUNEPLANE_HTTP_TIMEOUT"
DEFAULT_TIMEOUT_SECONDS = 30.0
CONNECT_TIMEOUT_SECONDS = 5.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def make_client(url: str, token: str | None, ca_file: str | None = None) -> httpx2.Client:
    """A client for the console at `url`.

    Redirects are not followed: they would carry the token to another place. Proxies come from the environment
    (HTTPS_PROXY, NO_PROXY, …), except for this machine itself, which no proxy can reach for us.
    """
    import httpx2

    headers = {
        "User-Agent": f"tuneplane/{__version__}",
        "Accept": "application/json, application/problem+json",
        "Accept-Language": current_language(),
    }
    if token:
        headers["Authorization"] = f"Bearer {token}"
    try:
        local = (urlsplit(url).hostname or "") in _LOOPBACK
    except ValueError as error:
        raise UnreachableError(_("{server} is no usable address: {why}").format(server=url, why=error)) from None
    timeout = httpx2.Timeout(read_timeout(), connect=min(CONNECT_TIMEOUT_SECONDS, read_timeout()))
    return httpx2.Client(
        base_url=url,
        headers=headers,
        timeout=timeout,
        follow_redirects=False,
        trust_env=not local,
        verify=_verify(url, ca_file),
    )


def read_timeout() -> float:
    """Seconds without a byte from the console after which it counts as hanging."""
    text = os.environ.get(TIMEOUT_VARIABLE, "")
    try:
        seconds = float(text) if text else DEFAULT_TIMEOUT_SECONDS
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        message = _("{variable} is “{value}”, which is no number of seconds between 0 and 3600")
        raise UnreachableError(message.format(variable=TIMEOUT_VARIABLE, value=text))
    return seconds


def _verify(url: str, ca_file: str | None) -> Any:
    if not url.startswith("https://"):
        return False  # nothing to verify, and loading every authority of the machine takes a while
    if ca_file is None:
        return True
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise UnreachableError(
            _("the certificate authority {file} cannot be used: {why}").format(file=ca_file, why=system_words(error)),
            _("name another file with: tp server add … --ca FILE"),
        ) from None
