"""The help of `tp` itself and of a group of commands, from the table alone."""

from __future__ import annotations

from tuneplane.cli.commands import Group
from tuneplane.i18n import N_, _

_ABOUT = N_("TunePlane: write, check, submit and follow LLM post-training experiments.")
_EXAMPLES = (
    "tp init my-lab && cd my-lab",
    "tp new first --method trl/sft",
    "tp login http://127.0.0.1:8642",
    "tp submit first --profile cpu --follow",
)
_EXIT_CODES = N_(
    "Exit codes: 0 done, 1 failed, 2 wrong command line, 3 refused, 4 not logged in, 5 console unreachable."
)


def group_help(path: list[str], group: Group) -> str:
    """The text for `tp --help` (empty `path`) or `tp <group> --help`."""
    above = " ".join(["tp", *path])
    lines = [_("Usage: {usage}").format(usage=f"{above} COMMAND [OPTIONS] …"), ""]
    lines += [_(_ABOUT if not path else group.summary), ""]
    width = max(len(name) for name in group.commands) + 2
    for section in dict.fromkeys(entry.section for entry in group.commands.values()):
        lines.append(_("{section}:").format(section=_(section)) if section else _("Commands:"))
        for name, entry in group.commands.items():
            if entry.section == section:
                lines.append(f"  {name:<{width}}{_(entry.summary)}")
        lines.append("")
    if not path:
        lines += [_("Example:"), *(f"  {example}" for example in _EXAMPLES), "", _(_EXIT_CODES)]
    lines.append(_("{command} COMMAND --help shows a command's options and an example.").format(command=above))
    return "\n".join(lines) + "\n"
