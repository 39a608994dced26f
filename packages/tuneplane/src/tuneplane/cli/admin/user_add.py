"""`tp admin user add`."""

from __future__ import annotations

import sys

import click

from tuneplane.cli.options import json_option, server_option, tp_command
from tuneplane.cli.session import open_administration
from tuneplane.cli.text import on_terminal, write, write_json
from tuneplane.i18n import _

MAX_PASSWORD = 4096


@tp_command(
    "tp admin user add ada",
    "tp admin user add olga --admin --password-stdin < password.txt",
    about=_("Asks for the first password; the user signs in with it in the browser, then with tp login."),
)
@click.argument("username", metavar="USER")
@click.option("--admin", is_flag=True, help=_("An administrator: may do all that this command group does."))
@click.option("--password-stdin", is_flag=True, help=_("Read the password from standard input."))
@server_option
@json_option
def command(username: str, admin: bool, password_stdin: bool, server: str | None, as_json: bool) -> None:
    with open_administration(server) as console:
        user = console.add_user(username, _password(password_stdin), admin=admin)
    if as_json:
        write_json(user)
    else:
        write(_("{user} can sign in now").format(user=user["username"]) + "\n")


def _password(from_stdin: bool) -> str:
    if from_stdin:
        password = sys.stdin.readline(MAX_PASSWORD + 2).rstrip("\r\n")
        if not password:
            raise click.UsageError(_("standard input holds no password"))
        return password
    if not on_terminal():
        raise click.UsageError(_("this needs --password-stdin when nobody can be asked"))
    answer: str = click.prompt(_("Password"), hide_input=True, confirmation_prompt=_("Again"), err=True)
    return answer
