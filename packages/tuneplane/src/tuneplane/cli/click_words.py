"""The sentences of click that `tp` can show, marked so that they get a translation. click looks them up by gettext itself."""

from __future__ import annotations

from tuneplane.i18n import N_

WORDS = (
    N_("Usage:"),
    N_("Options"),
    N_("Show this message and exit."),
    N_("default: {default}"),
    N_("required"),
    N_("Got unexpected extra argument ({args})"),
    N_("Got unexpected extra arguments ({args})"),
    N_("Invalid value: {message}"),
    N_("Invalid value for {param_hint}: {message}"),
    N_("Option {name!r} requires an argument."),
    N_("Option {name!r} does not take a value."),
    N_("{value!r} is not one of {choices}."),
    N_("{value!r} is not a valid {number_type}."),
    N_("{value} is not in the range {range}."),
    N_("{name} {filename!r} does not exist."),
    N_("{name} {filename!r} is a file."),
    N_("{name} {filename!r} is a directory."),
    N_("file"),
    N_("directory"),
    N_("path"),
)
