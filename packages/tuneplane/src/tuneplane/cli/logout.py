"""`tp logout`."""

from __future__ import annotations

from tuneplane.cli.options import server_option, tp_command
from tuneplane.cli.text import note
from tuneplane.client.errors import ConsoleError, NotSignedInError, ProblemError
from tuneplane.client.http import Console
from tuneplane.client.servers import choose, forget_login
from tuneplane.i18n import _


@tp_command(
    "tp logout",
    "tp logout --server team",
    about=_("The token is revoked on the console and forgotten here. Without the console it is only forgotten here."),
)
@server_option
def command(server: str | None) -> None:
    chosen = choose(server)
    if chosen.token is None:
        note(_("not logged in to {server}").format(server=chosen.url))
        return
    if chosen.token_from == "environment":  # noqa: S105 - not a token
        note(_("the token in the environment stays; unset it there"))
        return
    try:
        with Console(chosen.url, chosen.token, ca_file=chosen.ca_file) as console:
            console.revoke_token()
    except (NotSignedInError, ProblemError):
        pass  # it had stopped working before
    except ConsoleError as error:
        note(_("the console was not told: {why}").format(why=error.message))
        note(_("the token works there until it expires or is revoked in the console"))
    forget_login(chosen.url)
    note(_("logged out of {server}").format(server=chosen.url))
