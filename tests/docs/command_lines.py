"""Whether a command line that a page shows is one: the command exists, takes these options, and, where the line is whole, these values."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import click

from tests.services.session import ROOT
from tuneplane.cli.commands import TREE, Command, Group
from tuneplane.cli.leaf import load
from tuneplane_node import cli as node
from tuneplane_server.cli import cli as server

PROGRAMS = ("tp", "tuneplane", "tuneplane-server", "tuneplane-node", "make")
_ASSIGNMENT = re.compile(r"[A-Z_][A-Z0-9_]*=")
_SYNOPSIS = re.compile(r"[\[\]…|]|\.\.\.")
_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
_WHOLE_PROGRAM = {"--help", "-h", "--version", "-V"}


class WrongLineError(Exception):
    """Why a command line is none."""


def simple_commands(line: str) -> Iterator[list[str]]:
    """The commands that `&&`, `||`, `;` and `|` join in a line of shell, each as words, without assignments and redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    skip = False
    for token in lexer:
        if set(token) <= set("();&|"):
            yield from _known(words)
            words = []
        elif set(token) <= set("<>"):
            skip = True
        elif skip:
            skip = False
        else:
            words.append(token)
    yield from _known(words)


def _known(words: list[str]) -> Iterator[list[str]]:
    while words and _ASSIGNMENT.match(words[0]):
        words = words[1:]
    if words and words[0] in PROGRAMS:
        yield words


def check(words: list[str], *, whole: bool) -> None:
    """Raise `WrongLineError` unless the words are a command of ours. `whole`: with everything that the command needs."""
    program, rest = words[0], words[1:]
    if program == "make":
        _check_make(rest)
    elif program == "tuneplane-node":
        _check_node(rest, whole)
    elif program == "tuneplane-server":
        _check_click(*_server_command(rest), whole)
    else:
        _check_click(*_tp_command(rest), whole)


def check_text(text: str) -> None:
    """Check what stands in backticks: a whole line, only the name of a command, or a synopsis with brackets and dots."""
    if not _SYNOPSIS.search(text):
        for words in simple_commands(text):
            check(words, whole=False)
        return
    words = _SYNOPSIS.sub(" ", text).split()
    program, rest = words[0], words[1:]
    if program == "tuneplane-node":
        _check_node(rest, whole=False)
    elif program == "make":
        _check_make(rest[:1])
    else:
        command, rest = _server_command(rest) if program == "tuneplane-server" else _tp_command(rest)
        _check_options(command, rest)


def _check_make(words: list[str]) -> None:
    targets = make_targets()
    wrong = [word for word in words if not _ASSIGNMENT.match(word) and word not in targets]
    if wrong:
        raise WrongLineError(f"no target {wrong[0]} in the Makefile")


@cache
def make_targets() -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def _check_node(words: list[str], whole: bool) -> None:
    parser: argparse.ArgumentParser = node._parser()
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            parser.parse_args(words)
    except SystemExit as done:
        if done.code and (whole or words):
            raise WrongLineError(said.getvalue().strip()) from None


def _tp_command(words: list[str]) -> tuple[click.Command | None, list[str]]:
    """(the command, its arguments); None for a group, which has no options of its own."""
    entry: Command | Group = Group("", TREE)
    path = ["tp"]
    while isinstance(entry, Group):
        if not words or words[0] in _WHOLE_PROGRAM or words[0] == "COMMAND":
            return None, []
        following = entry.commands.get(words[0])
        if following is None and entry.default:
            words = [entry.default, *words]
            continue
        if following is None:
            raise WrongLineError(f"there is no command {' '.join([*path, words[0]])}")
        entry, path, words = following, [*path, words[0]], words[1:]
    return load(entry), words


def _server_command(words: list[str]) -> tuple[click.Command | None, list[str]]:
    command: click.Command = server
    while isinstance(command, click.Group):
        if not words or words[0] in _WHOLE_PROGRAM:
            return None, []
        following = command.commands.get(words[0])
        if following is None:
            raise WrongLineError(f"there is no command {command.name} {words[0]}")
        command, words = following, words[1:]
    return command, words


def _check_click(command: click.Command | None, arguments: list[str], whole: bool) -> None:
    if command is None:
        return
    try:
        command.make_context(command.name, list(arguments)).close()
    except click.MissingParameter as error:
        if whole:
            raise WrongLineError(error.format_message()) from None
        _check_options(command, arguments)
    except click.ClickException as error:
        raise WrongLineError(error.format_message()) from None
    except click.exceptions.Exit:  # --help
        pass


def _check_options(command: click.Command | None, words: list[str]) -> None:
    known = {"--help", "-h"} | {name for param in _params(command) for name in (*param.opts, *param.secondary_opts)}
    for word in words:
        match = _OPTION.match(word)
        if match and match[0] not in known:
            raise WrongLineError(f"there is no option {match[0]}")


def _params(command: click.Command | None) -> list[Any]:
    return [] if command is None else list(command.params)
