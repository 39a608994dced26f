"""Run one command: its module is imported, click reads the arguments, and whatever goes wrong becomes an exit code.

click and not typer: typer (0.29) imports pydantic for the first option of any command, ten times what an empty Python takes to start.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import click

import tuneplane
from tuneplane.cli.commands import Command
from tuneplane.cli.exits import FAILED, OK
from tuneplane.cli.options import TpCommand
from tuneplane.cli.problems import Problem, to_problem, unforeseen, usage, write_problem
from tuneplane.i18n import _, current_language

LOCALE = Path(tuneplane.__file__).parent / "locale"


def run_command(path: list[str], entry: Command, arguments: list[str]) -> int:
    """Run the command at `path` (`["job", "ls"]`); returns the exit code."""
    as_json = "--json" in arguments
    try:
        command = load(entry)
        # Not click's main(): it would turn Ctrl-C and a closed pipe into something else.
        with command.make_context(" ".join(["tp", *path]), arguments) as context:
            result = command.invoke(context)
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except click.exceptions.Exit as done:  # --help
        return done.exit_code
    except click.Abort:
        write_problem(Problem("aborted", _("nothing was done"), "", FAILED), as_json=as_json)
        return FAILED
    except Exception as error:  # noqa: BLE001 - the edge: a user never sees a traceback
        problem = _usage_problem(error, path) or to_problem(error) or unforeseen(error)
        write_problem(problem, as_json=as_json)
        return problem.exit_code
    return result if isinstance(result, int) else OK


def load(entry: Command) -> TpCommand:
    """The click command of a table entry, its help begun with the summary of the table."""
    _translate_click()
    command: TpCommand = importlib.import_module(entry.module).command
    command.summary = _(entry.summary)
    return command


def _usage_problem(error: Exception, path: list[str]) -> Problem | None:
    """click's errors about the command line, in our words."""
    if not isinstance(error, click.ClickException):
        return None
    command = " ".join(["tp", *path])
    hint = _("{command} --help shows the options and an example").format(command=command)
    if isinstance(error, click.NoSuchOption):
        message = _("{command} has no option {option}").format(command=command, option=error.option_name[:80])
        known = ", ".join(sorted(error.possibilities or ()))
        return usage(message, _("did you mean {options}?").format(options=known) if known else hint)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        name = error.param.get_error_hint(error.ctx) if error.ctx else error.param.name
        return usage(_("{command} needs {name}").format(command=command, name=str(name).strip("'\"")), hint)
    return usage(f"{command}: {error.format_message()}", hint)


def _translate_click() -> None:
    """click asks Python's gettext for its words (`click_words`); let it find ours when another language is wanted."""
    language = current_language()
    if language == "en":
        return
    import gettext
    import os

    os.environ["LANGUAGE"] = language.replace("-", "_")
    gettext.bindtextdomain("tuneplane", str(LOCALE))
    gettext.textdomain("tuneplane")
