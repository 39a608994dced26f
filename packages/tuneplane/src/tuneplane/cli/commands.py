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
    """`default`: the command of the group that is meant by a word which is none of its commands: `tp sweep first` runs `first`."""

    summary: str
    commands: dict[str, Command | Group]
    section: str = ""
    default: str = ""


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
        N_("Look after locks, and check recipes of your own"),
        {
            "lock": Command(N_("Write the lock anew, for the method this client has"), f"{_HERE}.recipe_lock"),
            "diff": Command(N_("Show how a lock differs from the catalog"), f"{_HERE}.recipe_diff"),
            "upgrade": Command(N_("Move locks to the newest recipe and runtime"), f"{_HERE}.recipe_upgrade"),
            "compile": Command(N_("Check a directory of an organisation's recipes"), f"{_HERE}.recipe_compile"),
            "publish": Command(N_("Publish an organisation's recipes on a console"), f"{_HERE}.recipe_publish"),
            "fetch": Command(N_("Get the organisation's recipes of a console"), f"{_HERE}.recipe_fetch"),
        },
        LAB,
    ),
    "submit": Command(N_("Submit an experiment as a job"), f"{_HERE}.submit", JOBS),
    "export": Command(N_("Make a Hugging Face directory of a checkpoint"), f"{_HERE}.export", JOBS),
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
    "sweep": Group(
        N_("Run an experiment many times with other parameters, and compare"),
        {
            "run": Command(N_("Start a sweep: a grid, at random, or by what comes out"), f"{_HERE}.sweep.run"),
            "ls": Command(N_("List sweeps, newest first"), f"{_HERE}.sweep.ls"),
            "show": Command(N_("Show a sweep and its trials, the best first"), f"{_HERE}.sweep.show"),
            "cancel": Command(N_("Cancel a sweep and its trials"), f"{_HERE}.sweep.cancel"),
            "resume": Command(N_("Go on with a sweep, and try again what failed"), f"{_HERE}.sweep.resume"),
        },
        JOBS,
        "run",
    ),
    "eval": Command(N_("Measure a checkpoint of a run, or a model"), f"{_HERE}.bench.eval", JOBS),
    "bench": Group(
        N_("Measure models with named suites, show and compare the reports"),
        {
            "run": Command(N_("Measure a model with a suite"), f"{_HERE}.bench.run"),
            "suites": Command(N_("List the suites"), f"{_HERE}.bench.suites"),
            "ls": Command(N_("List the reports, newest first"), f"{_HERE}.bench.ls"),
            "show": Command(N_("Show a report: figures of each task with their intervals"), f"{_HERE}.bench.show"),
            "compare": Command(
                N_("Show several reports side by side, and what differs beyond chance"), f"{_HERE}.bench.compare"
            ),
        },
        JOBS,
    ),
    "alert": Group(
        N_("Say what you want to be told about the runs of a project"),
        {
            "ls": Command(N_("List the rules, and what fires now"), f"{_HERE}.alert.ls"),
            "set": Command(N_("Make a rule or change one"), f"{_HERE}.alert.set"),
            "rm": Command(N_("Remove a rule"), f"{_HERE}.alert.rm"),
        },
        JOBS,
    ),
    "webhook": Group(
        N_("Say where a project's alerts are sent"),
        {
            "ls": Command(N_("List the webhooks"), f"{_HERE}.webhook.ls"),
            "add": Command(N_("Add a webhook, and show its secret once"), f"{_HERE}.webhook.add"),
            "rm": Command(N_("Remove a webhook"), f"{_HERE}.webhook.rm"),
            "test": Command(N_("Send a test message"), f"{_HERE}.webhook.test"),
            "log": Command(N_("Show what was sent, and how it went"), f"{_HERE}.webhook.log"),
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
    "admin": Group(
        N_("For administrators: users, quotas, policies, maintenance, nodes, runtimes, approvals"),
        {
            "user": Group(
                N_("Say who may sign in"),
                {
                    "ls": Command(N_("List the users"), f"{_HERE}.admin.user_ls"),
                    "add": Command(N_("Add a user"), f"{_HERE}.admin.user_add"),
                    "disable": Command(N_("Keep a user out"), f"{_HERE}.admin.user_disable"),
                    "enable": Command(N_("Let a user in again"), f"{_HERE}.admin.user_enable"),
                },
            ),
            "quota": Group(
                N_("Say what users and projects may use"),
                {
                    "ls": Command(N_("List the quotas"), f"{_HERE}.admin.quota_ls"),
                    "show": Command(N_("Show one quota and its use"), f"{_HERE}.admin.quota_show"),
                    "set": Command(N_("Change limits of a quota"), f"{_HERE}.admin.quota_set"),
                    "unset": Command(N_("Give a quota back to the default"), f"{_HERE}.admin.quota_unset"),
                },
            ),
            "policy": Group(
                N_("Say when a job needs approval, and what the watchdog does"),
                {
                    "show": Command(N_("Show the policies"), f"{_HERE}.admin.policy_show"),
                    "set": Command(N_("Change fields of a policy"), f"{_HERE}.admin.policy_set"),
                },
            ),
            "retention": Group(
                N_("Say how long a project keeps logs, metrics and samples"),
                {
                    "show": Command(N_("Show what a project keeps"), f"{_HERE}.admin.retention_show"),
                    "set": Command(N_("Change what a project keeps"), f"{_HERE}.admin.retention_set"),
                },
            ),
            "drain": Group(
                N_("Maintenance: start nothing new, let running jobs end"),
                {
                    "on": Command(N_("Start nothing new from now on"), f"{_HERE}.admin.drain_on"),
                    "off": Command(N_("Start jobs again"), f"{_HERE}.admin.drain_off"),
                    "status": Command(
                        N_("Say whether maintenance is on, and what still runs"), f"{_HERE}.admin.drain_status"
                    ),
                },
            ),
            "node": Group(
                N_("Look after the machines that run jobs"),
                {
                    "ls": Command(N_("List the nodes, and what is wrong with them"), f"{_HERE}.admin.node_ls"),
                    "show": Command(N_("Show one node: its cards, its runs, its problems"), f"{_HERE}.admin.node_show"),
                    "cordon": Command(N_("Start nothing new on a node"), f"{_HERE}.admin.node_cordon"),
                    "uncordon": Command(N_("Use a node again"), f"{_HERE}.admin.node_uncordon"),
                    "drain": Command(
                        N_("Start nothing new on a node, and let its runs end"), f"{_HERE}.admin.node_drain"
                    ),
                    "end": Command(
                        N_("End a job that was left on a node from before its state was lost"),
                        f"{_HERE}.admin.node_end",
                    ),
                    "remove": Command(N_("Take a node out of this console"), f"{_HERE}.admin.node_remove"),
                },
            ),
            "runtime": Group(
                N_("See what the runtimes of the recipes are on this console"),
                {
                    "ls": Command(
                        N_("List the runtimes, and the line to add where one cannot run"), f"{_HERE}.admin.runtime_ls"
                    ),
                },
            ),
            "approvals": Group(
                N_("Decide on jobs that wait for an administrator"),
                {
                    "ls": Command(N_("List the jobs that wait for approval"), f"{_HERE}.admin.approvals_ls"),
                    "approve": Command(N_("Let a job run"), f"{_HERE}.admin.approvals_approve"),
                    "reject": Command(N_("Refuse a job, with a reason"), f"{_HERE}.admin.approvals_reject"),
                },
            ),
        },
        CONSOLE,
    ),
    "version": Command(N_("Show versions, of the client and of the console"), f"{_HERE}.version", CONSOLE),
}
