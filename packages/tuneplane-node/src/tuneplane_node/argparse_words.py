"""The sentences of argparse that `tuneplane-node` can show, marked so that they get a translation."""

from __future__ import annotations

import gettext
import os

from tuneplane.i18n import N_, current_language
from tuneplane_node import LOCALE

WORDS = (
    N_("usage: "),
    N_("%(heading)s:"),
    N_("options"),
    N_("positional arguments"),
    N_("show this help message and exit"),
    N_("show program's version number and exit"),
    N_("%(prog)s: error: %(message)s\n"),
    N_("argument %(argument_name)s: %(message)s"),
    N_("the following arguments are required: %s"),
    N_("unrecognized arguments: %s"),
    N_("invalid choice: %(value)r (choose from %(choices)s)"),
    N_("expected one argument"),
    N_("ignored explicit argument %r"),
    N_("ambiguous option: %(option)s could match %(matches)s"),
)


def translate_argparse() -> None:
    """argparse asks Python's gettext for its words; let it find ours when another language is wanted."""
    language = current_language()
    if language == "en":
        return
    os.environ["LANGUAGE"] = language.replace("-", "_")
    gettext.bindtextdomain("tuneplane_node", str(LOCALE))
    gettext.textdomain("tuneplane_node")
