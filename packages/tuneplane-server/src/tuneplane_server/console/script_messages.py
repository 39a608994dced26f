"""The sentences that the browser's modules say. They reach them as a JSON block in the page; nothing of it is executed.

A module asks for a sentence by its English text (`t("Copied")`); a test checks that each one it asks for is listed here.
"""

from __future__ import annotations

from tuneplane_server.console.i18n import N_, _, current_language, ngettext

MESSAGES = (
    # times and sizes
    N_("just now"),
    N_("{n}s ago"),
    N_("{n}m ago"),
    N_("{n}h ago"),
    N_("{n}d ago"),
    N_("{days}d {hours}h"),
    N_("{hours}h {minutes}m"),
    N_("{minutes}m {seconds}s"),
    N_("{seconds}s"),
    # notices
    N_("Copied"),
    N_("Copying was refused by the browser; select the text instead."),
    N_("The console did not answer. Trying again."),
    N_("You are signed out. Sign in again to go on."),
    N_("The console refused this: {detail}"),
    # live
    N_("Live"),
    N_("Polling"),
    N_("Paused"),
    N_("Updates arrive as they happen."),
    N_("The live stream does not get through; this page asks every few seconds instead."),
    N_("Nothing more will arrive: the job has ended."),
    # theme
    N_("Colours: as the system"),
    N_("Colours: light"),
    N_("Colours: dark"),
    # curves
    N_("{metric}: {count} points, latest {latest}, from {min} to {max}"),
    N_("{min} to {max}, {count} points"),
    N_("step"),
    N_("smoothed"),
    N_("attempt {n}"),
    N_("replaced by attempt {n}"),
    N_("no epoch was reported with this metric"),
    N_("no count of tokens is known for these steps"),
    N_("no value above zero to show on a log scale"),
    N_("No metric has this name."),
    N_("{count} values of metrics beyond the limits of a job were not kept."),
    N_("Show {count} more of {total}"),
    N_("Pinned"),
    N_("epoch"),
    N_("{count} tokens"),
    # hardware
    N_("Cards"),
    N_("Machines"),
    N_("This run alone"),
    N_("GPU {n}"),
    N_("use of the card"),
    N_("memory of the card"),
    N_("temperature"),
    N_("power"),
    N_("memory errors"),
    N_("not corrected"),
    N_("corrected"),
    N_("slowed down by heat or power"),
    N_("processor"),
    N_("memory"),
    N_("disk in use"),
    N_("disk traffic"),
    N_("network traffic"),
    N_("read"),
    N_("written"),
    N_("received"),
    N_("sent"),
    N_("{n} cores"),
    # sweeps
    N_("log"),
    N_("Trial {n}: {values}"),
    N_("{count} of {total} trials chosen"),
    # logs
    N_("Waiting for the first line"),
    N_("No line matches."),
    N_("This part has no lines."),
    N_("The log begins here."),
    N_("Reading earlier lines…"),
    N_("Show the lines around this one"),
    N_("{size} of output beyond the quota of this job were not kept."),
    N_("rank {n}"),
    N_("Follow"),
)


def translated() -> dict[str, str]:
    """English text -> text in the reader's language; empty for English. A plural stands under its singular."""
    if current_language() == "en":
        return {}
    return {text: _(text) for text in MESSAGES} | _plurals(2)


def _plurals(count: int) -> dict[str, str]:
    """Singular -> the form for `count`; Chinese has only the one."""
    return {
        "{count} line": ngettext("{count} line", "{count} lines", count),
        "{count} new line": ngettext("{count} new line", "{count} new lines", count),
        "{count} match": ngettext("{count} match", "{count} matches", count),
        "{count} run chosen": ngettext("{count} run chosen", "{count} runs chosen", count),
        "{count} metric": ngettext("{count} metric", "{count} metrics", count),
    }
