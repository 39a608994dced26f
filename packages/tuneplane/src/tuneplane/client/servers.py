"""The user's home `TUNEPLANE_HOME` or `~/.tuneplane`: named servers, and the token of each.

The directory is 0700 and the tokens 0600. Every change replaces a whole file under a lock, so that two commands at once, or a
crash in between, leave the state before or after, and a failed login changes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tuneplane.client.errors import ConsoleError, NotSignedInError
from tuneplane.contract.names import is_segment
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.lab.files import replace_file
from tuneplane.quoted_words import json_words, system_words

HOME_VARIABLE = "TUNEPLANE_HOME"
SERVER_VARIABLE = "TUNEPLANE_SERVER"
TOKEN_VARIABLE = "TUNEPLANE_TOKEN"  # noqa: S105 - a name, not a value
SERVERS_FILE = "servers.json"
CREDENTIALS_FILE = "credentials.json"
DEFAULT_NAME = "default"
LOCK_SECONDS = 10.0  # another command writes for milliseconds; whoever holds the lock this long hangs


@dataclass(frozen=True)
class Server:
    """`name` is empty for one given by its address only. `token_from`: `environment`, `login` or empty."""

    name: str
    url: str
    ca_file: str | None = None
    token: str | None = field(default=None, repr=False)
    token_from: str = ""
    username: str = ""


def home() -> Path:
    """The directory; made by whoever writes into it."""
    named = os.environ.get(HOME_VARIABLE)
    try:
        return Path(named).expanduser().absolute() if named else Path.home() / ".tuneplane"
    except RuntimeError:
        message = _("there is no home directory to keep the client's settings in")
        raise ConsoleError(message, _("set {variable}").format(variable=HOME_VARIABLE)) from None


def check_url(url: str) -> str:
    """The address in the form it is kept in. Raises `RefusedError` for what is no http(s) address, or holds a password."""
    text = url.strip().rstrip("/")
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
        parts = urlsplit("")
    if usable and "@" not in parts.netloc and not parts.query and not parts.fragment and text.isprintable():
        return text
    message = (
        _("the address must hold no user or password")
        if "@" in parts.netloc
        else _("“{url}” is no address of a console").format(url=text[:200])
    )
    raise RefusedError([Refusal("request-invalid", message, _("write http://host:port or https://host"))])


def list_servers() -> tuple[list[Server], str]:
    """(the named servers by name, the name of the one in use or an empty text)."""
    state, tokens = _read(SERVERS_FILE), _read(CREDENTIALS_FILE)
    servers = [_server(name, entry, tokens) for name, entry in sorted(_entries(state, "servers").items())]
    current = state.get("current")
    return servers, current if isinstance(current, str) else ""


def choose(wanted: str | None = None) -> Server:
    """The server to talk to: `wanted` (a name or an address), else `TUNEPLANE_SERVER`, else the one in use.

    `TUNEPLANE_TOKEN` takes the place of a kept token. Raises `NotSignedInError` when no server is known.
    """
    asked = wanted or os.environ.get(SERVER_VARIABLE) or ""
    servers, current = list_servers()
    named = {server.name: server for server in servers}
    if not asked and not current:
        raise NotSignedInError(
            _("no server is known yet"), _("log in with: tp login <address>, for example http://127.0.0.1:8642")
        )
    server = named.get(asked or current) or _by_url(asked or current, servers)
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    return replace(server, token=token, token_from="environment", username="") if token else server  # noqa: S106


def add_server(name: str, url: str, ca_file: str | None = None, *, use: bool | None = None) -> Server:
    """Keep a server under a name; an older one of that name is replaced. `use`: make it the one in use (default: when it is the first)."""
    if not is_segment(name):
        message = _("“{name}” is no name for a server").format(name=name[:80])
        raise RefusedError([Refusal("name-invalid", message, _("use letters, digits and . _ -"))])
    url = check_url(url)
    with _locked():
        state = _read(SERVERS_FILE)
        entries = _entries(state, "servers")
        entries[name] = {"url": url} | ({"ca_file": str(Path(ca_file).absolute())} if ca_file else {})
        first = not state.get("current")
        _write(
            SERVERS_FILE,
            {"current": name if use or (use is None and first) else state.get("current"), "servers": entries},
        )
        return _server(name, entries[name], _read(CREDENTIALS_FILE))


def use_server(name: str) -> Server:
    with _locked():
        state = _read(SERVERS_FILE)
        entries = _entries(state, "servers")
        if name not in entries:
            raise _unknown(name, sorted(entries))
        _write(SERVERS_FILE, {"current": name, "servers": entries})
        return _server(name, entries[name], _read(CREDENTIALS_FILE))


def save_login(name: str, url: str, token: str, username: str, ca_file: str | None = None) -> Server:
    """Keep a token that the console has just accepted, and make the server the one in use."""
    with _locked():
        tokens = _read(CREDENTIALS_FILE)
        entries = _entries(tokens, "tokens")
        entries[check_url(url)] = {"token": token, "username": username}
        _write(CREDENTIALS_FILE, {"tokens": entries})
    return add_server(name, url, ca_file, use=True)


def forget_login(url: str) -> bool:
    """Drop the token of that address; whether there was one."""
    with _locked():
        tokens = _read(CREDENTIALS_FILE)
        entries = _entries(tokens, "tokens")
        found = entries.pop(url, None) is not None
        if found:
            _write(CREDENTIALS_FILE, {"tokens": entries})
        return found


def name_for(url: str) -> str:
    """The name that a server logged in to by address gets: its old one, else `default`, else made from the host."""
    servers, _current = list_servers()
    for server in servers:
        if server.url == url:
            return server.name
    if all(server.name != DEFAULT_NAME for server in servers):
        return DEFAULT_NAME
    parts = urlsplit(url)
    name = f"{parts.hostname}-{parts.port}" if parts.port else str(parts.hostname)
    name = name.replace(":", "-")[:63]
    return name if is_segment(name) else "server"


def _by_url(text: str, servers: list[Server]) -> Server:
    if "://" not in text:
        raise _unknown(text, [server.name for server in servers])
    url = check_url(text)
    for server in servers:
        if server.url == url:
            return server
    return _server("", {"url": url}, _read(CREDENTIALS_FILE))


def _unknown(name: str, known: list[str]) -> RefusedError:
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    hint = (
        _("did you mean “{name}”?").format(name=close[0])
        if close
        else _("tp server ls shows the known ones; tp login <address> adds one")
    )
    return RefusedError([Refusal("not-found", _("there is no server called “{name}”").format(name=name[:80]), hint)])


def _server(name: str, entry: Any, tokens: dict[str, Any]) -> Server:
    fields = entry if isinstance(entry, dict) else {}
    url, ca_file = fields.get("url"), fields.get("ca_file")
    if not isinstance(url, str):
        raise _broken(home() / SERVERS_FILE, _("the server “{name}” has no address").format(name=name))
    kept = _entries(tokens, "tokens").get(url)
    login = kept if isinstance(kept, dict) else {}
    token, username = login.get("token"), login.get("username")
    return Server(
        name,
        url,
        ca_file if isinstance(ca_file, str) else None,
        token if isinstance(token, str) else None,
        "login" if isinstance(token, str) else "",
        username if isinstance(username, str) else "",
    )


def _entries(state: dict[str, Any], key: str) -> dict[str, Any]:
    found = state.get(key, {})
    return dict(found) if isinstance(found, dict) else {}


def _read(name: str) -> dict[str, Any]:
    path = home() / name
    try:
        if name == CREDENTIALS_FILE and path.stat().st_mode & 0o077:
            path.chmod(0o600)  # copied from elsewhere, or restored from a backup, with everyone allowed to read it
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise _broken(path, system_words(error)) from None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise _broken(path, json_words(error)) from None
    if not isinstance(value, dict):
        raise _broken(path, _("it holds no object"))
    return value


def _broken(path: Path, why: str) -> ConsoleError:
    return ConsoleError(
        _("{path} cannot be used: {why}").format(path=path, why=why),
        _("mend it, or move it away and log in again"),
    )


def _write(name: str, value: dict[str, Any]) -> None:
    data = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    replace_file(home() / name, data.encode("utf-8"), mode=0o600)


@contextmanager
def _locked() -> Iterator[None]:
    """One writer at a time; the lock goes with the process."""
    directory = home()
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if directory.stat().st_mode & 0o077:
            directory.chmod(0o700)
        descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _broken(directory, system_words(error)) from None
    try:
        _lock(descriptor, directory)
        yield
    except OSError as error:
        raise _broken(directory, system_words(error)) from None
    finally:
        os.close(descriptor)


def _lock(descriptor: int, directory: Path) -> None:
    import fcntl
    import time

    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise _broken(directory, _("another command holds its lock")) from None
            time.sleep(0.05)
        else:
            return
