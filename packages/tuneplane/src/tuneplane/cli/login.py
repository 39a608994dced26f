"""`tp login`: by the browser and a code, or with a token. What is kept changes only once the console has accepted the token."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit

import click

from tuneplane.cli.browser import open_page
from tuneplane.cli.options import json_option, tp_command
from tuneplane.cli.text import clean, note, write, write_json
from tuneplane.client.errors import ConsoleError, NotSignedInError, ProblemError
from tuneplane.client.http import Console
from tuneplane.client.servers import TOKEN_VARIABLE, Server, check_url, choose, list_servers, name_for, save_login
from tuneplane.i18n import _

MAX_WAIT_SECONDS = 1800
MAX_TOKEN_CHARACTERS = 4096


@tp_command(
    "tp login http://127.0.0.1:8642",
    "tp login team",
    "tp login https://tuneplane.example --token-stdin < token.txt",
    about=_(
        "Shows a code and an address; confirm the code in a browser, on any machine. With --token-stdin, or when {variable} is set,"
        " that token is checked and kept instead."
    ).format(variable=TOKEN_VARIABLE),
)
@click.argument("server", metavar="[NAME|URL]", required=False)
@click.option("--token-stdin", is_flag=True, help=_("Read a token from standard input."))
@click.option("--name", default=None, help=_("Keep the console under this name."))
@click.option(
    "--ca",
    "ca_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=_("PEM file of the authority that signed the console's certificate."),
)
@click.option("--no-browser", is_flag=True, help=_("Do not open a browser here."))
@json_option
def command(
    server: str | None, token_stdin: bool, name: str | None, ca_file: Path | None, no_browser: bool, as_json: bool
) -> None:
    known = _server(server)
    authority = str(ca_file.absolute()) if ca_file else known.ca_file
    with Console(known.url, ca_file=authority) as console:
        info = console.server_info()
        if info.get("setup_needed"):
            raise ConsoleError(
                _("the console at {server} has no user yet").format(server=known.url),
                _("open the set-up link that it printed when it started"),
                "setup-needed",
            )
        _warn_plain_http(known.url)
        token = _given_token(token_stdin) or _by_browser(console, no_browser)
    username = _accepted(known.url, token, authority)
    kept = save_login(name or known.name or name_for(known.url), known.url, token, username, authority)
    if as_json:
        write_json({"server": kept.name, "url": kept.url, "username": username})
    else:
        write(_("logged in to {name} ({url}) as {user}").format(name=kept.name, url=kept.url, user=username) + "\n")


def _server(wanted: str | None) -> Server:
    """By name or address; an address need not be known yet."""
    if wanted and "://" not in wanted and (":" in wanted or "." in wanted or wanted == "localhost"):
        known, _current = list_servers()
        if all(server.name != wanted for server in known):
            # `tp login localhost:8000` means what it looks like. Plain HTTP is only assumed for this machine.
            host = urlsplit(f"//{wanted}").hostname or ""
            scheme = "http" if host in ("localhost", "127.0.0.1", "::1") else "https"
            wanted = check_url(f"{scheme}://{wanted}")
    return choose(wanted)


def _given_token(from_stdin: bool) -> str | None:
    if from_stdin:
        token = sys.stdin.readline(MAX_TOKEN_CHARACTERS).strip()
        if not token:
            raise click.UsageError(_("there is no token on standard input"))
    else:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if token and not (token.isascii() and token.isprintable() and " " not in token):
        raise click.UsageError(_("what was given is no token"))
    return token or None


def _by_browser(console: Console, no_browser: bool) -> str:
    start = console.start_device_login(f"tp on {socket.gethostname()}"[:100])
    address = start.get("verification_uri_complete") or start["verification_uri"]
    note(_("open {address}").format(address=clean(start["verification_uri"])))
    note(_("and enter the code {code}").format(code=clean(start["user_code"])))
    if not no_browser and address.startswith(("http://", "https://")):
        open_page(address)
    deadline = monotonic() + min(max(start["expires_in"], 1), MAX_WAIT_SECONDS)
    interval = min(max(start["interval"], 1), 30)
    while monotonic() < deadline:
        try:
            return console.collect_device_login(start["device_code"])["token"]
        except ProblemError as error:
            if error.code == "too-many-requests":
                interval = min(interval * 2, 30)
            elif error.code != "not-yet":
                raise
        sleep(interval)
    raise NotSignedInError(_("the code was not confirmed in time"), _("run tp login again"))


def _accepted(url: str, token: str, ca_file: str | None) -> str:
    """The user's name, as the console knows the token; raises when it does not."""
    with Console(url, token, ca_file=ca_file) as console:
        try:
            return console.me()["username"]
        except NotSignedInError:
            message = _("{server} does not accept this token").format(server=url)
            raise NotSignedInError(message, _("make a new one in the console, under Access tokens")) from None


def _warn_plain_http(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        note(_("note: {url} is not encrypted; everyone on the way can read the token").format(url=url))
