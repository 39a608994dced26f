"""The sentences of click that `tp` can show, marked so that they get a translation. click looks them up by gettext itself."""

from __future__ import annotations

from tuneplane.i18n import N_, ngettext

WORDS = (
    N_("Usage:"),
    N_("Options"),
    N_("Show this message and exit."),
    N_("default: {default}"),
    N_("required"),
    N_("Invalid value: {message}"),
    N_("Invalid value for {param_hint}: {message}"),
    N_("Option {name!r} does not take a value."),
    N_("{value!r} is not a valid {number_type}."),
    N_("{value} is not in the range {range}."),
    N_("{name} {filename!r} does not exist."),
    N_("{name} {filename!r} is a file."),
    N_("{name} {filename!r} is a directory."),
    N_("{name} {filename!r} is not readable."),
    N_("{name} {filename!r} is not writable."),
    N_("Error: invalid input"),
    N_("file"),
    N_("directory"),
    N_("path"),
)
# click asks for these by number, which finds no message that was marked without its plural.
PLURAL_WORDS = (
    ngettext("Got unexpected extra argument ({args})", "Got unexpected extra arguments ({args})", 1),
    ngettext("Option {name!r} requires an argument.", "Option {name!r} requires {nargs} arguments.", 1),
    ngettext("{value!r} is not {choice}.", "{value!r} is not one of {choices}.", 1),
)
