"""The table of commands: what `tp --help` shows, and which module answers which command. Imports nothing heavy."""

from __future__ import annotations

from typing import NamedTuple

from tuneplane.i18n import N_


class Command(NamedTuple):
    """`module` is imported when the command is run, and no earlier; its function `command` does the work."""

    summary: str
    module: str
    section: str = ""


class Group(NamedTuple):
    summary: str
    commands: dict[str, Command | Group]
    section: str = ""


LAB = N_("In a lab")
JOBS = N_("Jobs")
CONSOLE = N_("Console")

_HERE = "tuneplane.cli"

TREE: dict[str, Command | Group] = {
    "init": Command(N_("Make a lab"), f"{_HERE}.init", LAB),
    "methods": Command(N_("List the methods, or show one with its parameters"), f"{_HERE}.methods", LAB),
    "new": Command(N_("Make an experiment from a method's template"), f"{_HERE}.new", LAB),
    "ls": Command(N_("List the experiments of the lab"), f"{_HERE}.ls", LAB),
    "validate": Command(N_("Check experiments, offline and completely"), f"{_HERE}.validate", LAB),
    "recipe": Group(
        N_("Look after the lock of an experiment"),
        {
            "lock": Command(N_("Write the lock anew, for the method this client has"), f"{_HERE}.recipe_lock"),
            "diff": Command(N_("Show how a lock differs from the catalog"), f"{_HERE}.recipe_diff"),
        },
        LAB,
    ),
    "submit": Command(N_("Submit an experiment as a job"), f"{_HERE}.submit", JOBS),
    "status": Command(N_("Show the lab, the console and what is running"), f"{_HERE}.status", JOBS),
    "job": Group(
        N_("Look at jobs, follow, pause, resume and cancel them"),
        {
            "ls": Command(N_("List jobs, newest first"), f"{_HERE}.job.ls"),
            "show": Command(N_("Show one job: why it waits, why it failed"), f"{_HERE}.job.show"),
            "logs": Command(N_("Show or follow the output"), f"{_HERE}.job.logs"),
            "cancel": Command(N_("Cancel a job"), f"{_HERE}.job.cancel"),
            "pause": Command(N_("Stop a job so that it can go on later"), f"{_HERE}.job.pause"),
            "resume": Command(N_("Go on from a checkpoint"), f"{_HERE}.job.resume"),
            "retry": Command(N_("Run a job that is over again, from scratch"), f"{_HERE}.job.retry"),
            "wait": Command(N_("Wait until a job is over"), f"{_HERE}.job.wait"),
            "metrics": Command(N_("Show metrics and draw curves"), f"{_HERE}.job.metrics"),
            "samples": Command(N_("Show samples of what the model writes"), f"{_HERE}.job.samples"),
            "artifacts": Command(N_("List files and checkpoints"), f"{_HERE}.job.artifacts"),
            "download": Command(N_("Download files or a checkpoint"), f"{_HERE}.job.download"),
            "open": Command(N_("Open the job's page in the browser"), f"{_HERE}.job.open"),
        },
        JOBS,
    ),
    "login": Command(N_("Log in to a console"), f"{_HERE}.login", CONSOLE),
    "logout": Command(N_("Log out: the token stops working"), f"{_HERE}.logout", CONSOLE),
    "server": Group(
        N_("Keep consoles under names"),
        {
            "add": Command(N_("Keep a console under a name"), f"{_HERE}.server_add"),
            "use": Command(N_("Choose the console to talk to"), f"{_HERE}.server_use"),
            "ls": Command(N_("List the known consoles"), f"{_HERE}.server_ls"),
        },
        CONSOLE,
    ),
    "version": Command(N_("Show versions, of the client and of the console"), f"{_HERE}.version", CONSOLE),
}
