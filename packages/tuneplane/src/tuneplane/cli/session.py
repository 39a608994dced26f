"""The console that a command talks to, and the lab it stands in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tuneplane.client.errors import NotSignedInError
from tuneplane.client.http import Console
from tuneplane.client.servers import TOKEN_VARIABLE, Server, choose
from tuneplane.contract.refusals import RefusedError
from tuneplane.i18n import _
from tuneplane.lab.experiments import Experiment, experiment_at, find_experiment
from tuneplane.lab.find import Lab, find_lab

if TYPE_CHECKING:
    from tuneplane.client.admin import Administration
    from tuneplane.client.alerts import AlertConsole
    from tuneplane.client.evaluations import EvaluationConsole
    from tuneplane.client.sweeps import SweepConsole


def open_console(wanted: str | None, *, anonymous: bool = False) -> Console:
    """The chosen console. Without `anonymous` a token is needed: `NotSignedInError` when there is none."""
    return console_for(choose(wanted), anonymous=anonymous)


def open_administration(wanted: str | None) -> Administration:
    """The chosen console, with the calls for administrators."""
    from tuneplane.client.admin import Administration

    return _opened(Administration, choose(wanted))


def open_alerts(wanted: str | None) -> AlertConsole:
    """The chosen console, with the calls for alerts and webhooks."""
    from tuneplane.client.alerts import AlertConsole

    return _opened(AlertConsole, choose(wanted))


def open_evaluations(wanted: str | None) -> EvaluationConsole:
    """The chosen console, with the calls for evaluations."""
    from tuneplane.client.evaluations import EvaluationConsole

    return _opened(EvaluationConsole, choose(wanted))


def open_sweeps(wanted: str | None) -> SweepConsole:
    """The chosen console, with the calls for sweeps."""
    return sweeps_for(choose(wanted))


def sweeps_for(server: Server) -> SweepConsole:
    from tuneplane.client.sweeps import SweepConsole

    return _opened(SweepConsole, server)


def console_for(server: Server, *, anonymous: bool = False) -> Console:
    return _opened(Console, server, anonymous=anonymous)


def _opened[C: Console](kind: type[C], server: Server, *, anonymous: bool = False) -> C:
    if server.token is None and not anonymous:
        raise NotSignedInError(
            _("not logged in to {server}").format(server=server.url),
            _("log in with: tp login {server}, or set {variable}").format(
                server=server.name or server.url, variable=TOKEN_VARIABLE
            ),
        )
    return kind(server.url, server.token, ca_file=server.ca_file)


def lab_or_none() -> Lab | None:
    """The lab around the working directory, or None outside of one; a broken one is still an error."""
    from tuneplane.lab.find import find_root

    try:
        find_root()
    except RefusedError:
        return None
    return find_lab()


def chosen_experiment(lab: Lab, name: str | None) -> Experiment:
    """The experiment named, or the one that the working directory lies in."""
    if name:
        return find_experiment(lab, name)
    here = experiment_at(lab, Path.cwd())
    if here is None:
        import click

        raise click.UsageError(_("name an experiment; tp ls shows them"))
    return here
