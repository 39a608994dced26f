"""`tp`: find the command in a table, import its module alone, run it, turn every error into one clear message and an exit code.

`tp --help`, `tp --version` and the help of a group are answered from the table, before the argument parser is imported.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

from tuneplane import __version__, i18n
from tuneplane.cli.commands import TREE, Command, Group
from tuneplane.cli.exits import BROKEN_PIPE, FAILED, INTERRUPTED, OK, USAGE

HELP_WORDS = ("-h", "--help")


def main() -> int:
    """Entry point of `tp` and `tuneplane`; returns the exit code."""
    i18n.set_language(i18n.language_from_environment())
    _prepare_streams()
    arguments = sys.argv[1:]
    try:
        code = run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has what it wanted (`tp job ls | head`). Nothing may be written at exit any more.
        _silence(sys.stdout)
        return BROKEN_PIPE
    except OSError as error:  # a full disk, at the flush
        _silence(sys.stdout)
        from tuneplane.quoted_words import system_words

        sys.stderr.write(f"{i18n._('error: ')}{system_words(error)}\n")
        return FAILED
    return code


def run(arguments: list[str]) -> int:
    """Run one command line, without the program's name."""
    if arguments and arguments[0] in ("--version", "-V"):
        sys.stdout.write(f"tuneplane {__version__}\n")
        return OK
    entry: Command | Group = Group("", TREE)
    path: list[str] = []
    while isinstance(entry, Group):
        if not arguments or arguments[0] in HELP_WORDS:
            return _help(path, entry)
        name = arguments[0]
        following = entry.commands.get(name)
        if following is None and entry.default:
            arguments = [entry.default, *arguments]
            continue
        if following is None:
            return _unknown(path, name, entry, arguments)
        path, arguments, entry = [*path, name], arguments[1:], following
    from tuneplane.cli.leaf import run_command

    return run_command(path, entry, arguments)


def _help(path: list[str], group: Group) -> int:
    from tuneplane.cli.help import group_help

    sys.stdout.write(group_help(path, group))
    return OK


def _unknown(path: list[str], name: str, group: Group, arguments: list[str]) -> int:
    from difflib import get_close_matches

    from tuneplane.cli.problems import Problem, write_problem
    from tuneplane.i18n import _

    above = " ".join(["tp", *path])
    close = get_close_matches(name, group.commands, n=1)
    hint = (
        _("did you mean “{command}”?").format(command=f"{above} {close[0]}")
        if close
        else _("{command} --help shows what there is").format(command=above)
    )
    message = (
        _("there is no option {name} here").format(name=name[:80])
        if name.startswith("-")
        else _("there is no command “{name}”").format(name=f"{above} {name[:80]}")
    )
    write_problem(Problem("usage", message, hint, USAGE), as_json="--json" in arguments)
    return USAGE


def _prepare_streams() -> None:
    """A closed stream goes nowhere; a terminal that cannot show a character gets a replacement, never a crash."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - open until the process ends


def _silence(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    raise SystemExit(main())
