"""How commands are declared: the decorator, and the options that several of them share."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import click

from tuneplane.cli.help_format import HelpFormatter
from tuneplane.i18n import _

Function = Callable[..., Any]


class TpContext(click.Context):
    formatter_class = HelpFormatter


class TpCommand(click.Command):
    """A command whose help begins with the summary that the table of commands has for it."""

    context_class = TpContext
    summary = ""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(_("{sentence}.").format(sentence=self.summary))
        super().format_help_text(ctx, formatter)


def tp_command(*examples: str, about: str = "") -> Callable[[Function], TpCommand]:
    """A command of `tp`: `about` follows the table's summary in its help, `examples` end it. The function may return an exit code."""
    epilog = "\b\n" + "\n".join([_("Example:"), *(f"  {example}" for example in examples)])
    return click.command(
        cls=TpCommand,
        help=about,
        epilog=epilog,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


class _Named:
    """click would call these “integer range”, in messages and in the help."""

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "N"


class WholeNumber(_Named, click.IntRange):
    name = _("whole number")


class Number(_Named, click.FloatRange):
    """Finite: NaN would slip through every range."""

    name = _("number")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(_("{value} is not a finite number").format(value=value), param, ctx)
        return number

    def _describe_range(self) -> str:
        return "" if self.min is None and self.max is None else super()._describe_range()


json_option = click.option("--json", "as_json", is_flag=True, help=_("Print JSON instead of text."))
server_option = click.option(
    "--server", metavar="NAME|URL", default=None, help=_("The console to talk to, by name or address.")
)
yes_option = click.option("--yes", "-y", is_flag=True, help=_("Do not ask."))
job_argument = click.argument("job", metavar="JOB")
experiment_argument = click.argument("experiment", metavar="[EXPERIMENT]", required=False, default=None)
experiments_argument = click.argument("experiments", metavar="[EXPERIMENT]...", nargs=-1)
