"""The registry logins that `docker login` left for this user, as the engine's API wants them.

The engine's command line does the same (https://docs.docker.com/reference/api/engine/#section/Authentication): the daemon
itself knows no logins. Podman's service reads its own file as well.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import shutil
from pathlib import Path
from typing import Any

HELPER_SECONDS = 20.0
DOCKER_HUB = "https://index.docker.io/v1/"


class RegistryLogins:
    """`config` is docker's `config.json`; it may be missing. A helper or a file that fails gives no login: the
    registry then says what it thinks of that, and its words reach the user."""

    def __init__(self, config: Path) -> None:
        self._config = config

    async def header(self, image: str) -> dict[str, str]:
        """The header to send with a pull of this image, empty without a login."""
        login = await self._login(registry_of(image))
        if not login:
            return {}
        return {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(login).encode()).decode()}

    async def _login(self, registry: str) -> dict[str, str]:
        try:
            config = json.loads(await asyncio.to_thread(self._config.read_text))
        except (OSError, ValueError):
            return {}
        if not isinstance(config, dict):
            return {}
        helper = (config.get("credHelpers") or {}).get(registry) or config.get("credsStore")
        if helper:
            return await _ask_helper(str(helper), registry)
        return _from_auths(config.get("auths") or {}, registry)


def registry_of(image: str) -> str:
    """The host (with port) that serves an image, Docker Hub under the key that its logins have."""
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return DOCKER_HUB if first in ("docker.io", "index.docker.io") else first
    return DOCKER_HUB


def _from_auths(auths: dict[str, Any], registry: str) -> dict[str, str]:
    for key in (registry, f"https://{registry}", f"https://{registry}/v1/", f"https://{registry}/v2/"):
        entry = auths.get(key)
        if isinstance(entry, dict):
            return _from_entry(entry, registry)
    return {}


def _from_entry(entry: dict[str, Any], registry: str) -> dict[str, str]:
    if entry.get("identitytoken"):
        return {"identitytoken": str(entry["identitytoken"]), "serveraddress": registry}
    try:
        user, colon, password = base64.b64decode(str(entry.get("auth", ""))).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return {}
    return {"username": user, "password": password, "serveraddress": registry} if colon else {}


async def _ask_helper(helper: str, registry: str) -> dict[str, str]:
    """`docker-credential-<helper> get`: the registry on standard input, JSON on standard output."""
    program = shutil.which(f"docker-credential-{helper}")
    if program is None:
        return {}
    process = await asyncio.create_subprocess_exec(
        program,
        "get",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(HELPER_SECONDS):
            output, _ = await process.communicate(registry.encode())
        answer = json.loads(output)
        user, secret = str(answer["Username"]), str(answer["Secret"])
    except TimeoutError:
        process.kill()
        return {}
    except (ValueError, KeyError, TypeError):
        return {}
    if user == "<token>":
        return {"identitytoken": secret, "serveraddress": registry}
    return {"username": user, "password": secret, "serveraddress": registry}
