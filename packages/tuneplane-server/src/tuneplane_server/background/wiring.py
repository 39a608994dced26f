"""Builds the roles, and what decides whether they run, from the services."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from tuneplane.contract import words
from tuneplane_node.agent_token import AgentToken
from tuneplane_server.background.alerter import Alerter
from tuneplane_server.background.consoles import Consoles
from tuneplane_server.background.deliverer import Deliverer
from tuneplane_server.background.duty import Duty
from tuneplane_server.background.follower import Follower
from tuneplane_server.background.hasher import Hasher
from tuneplane_server.background.launcher import Launcher
from tuneplane_server.background.launching import LaunchPreparer
from tuneplane_server.background.leases import Leases
from tuneplane_server.background.leftovers import LeftoverShipper
from tuneplane_server.background.loop import Role
from tuneplane_server.background.observer import Observer
from tuneplane_server.background.orphans import OrphanSweeper
from tuneplane_server.background.placer import Placer
from tuneplane_server.background.reaper import Reaper
from tuneplane_server.background.retainer import Retainer
from tuneplane_server.background.roles import BackgroundRoles
from tuneplane_server.background.sampler import Sampler
from tuneplane_server.background.sweeper import Sweeper
from tuneplane_server.background.watchdog import Watchdog
from tuneplane_server.background.writing import RoleWriter
from tuneplane_server.domain.watch import WatchPolicy
from tuneplane_server.domain.webhooks import parse_hosts
from tuneplane_server.features.alerts.sending import Sender
from tuneplane_server.services import Services
from tuneplane_server.settings import Settings


def offered(settings: Settings) -> dict[str, str]:
    """Variables of every job: the judge model, where the console names one."""
    if settings.job_judge_endpoint is None:
        return {}
    token = settings.job_judge_token
    given = {words.ENV_JUDGE_TOKEN: token.get_secret_value()} if token is not None else {}
    return {words.ENV_JUDGE_ENDPOINT: settings.job_judge_endpoint, **given}


def build_roles(services: Services) -> BackgroundRoles:
    settings, executor = services.settings, services.executor
    writer = RoleWriter(services.database, services.clock, services.ledger)
    leases = Leases(services.database, services.clock, services.instance, timedelta(seconds=settings.lease_seconds))
    preparer = LaunchPreparer(services.planner, executor, services.store, services.ingest, services, offered(settings))
    placer = Placer(
        writer,
        services.queue,
        services.hardware,
        services.governance,
        services.wakeups,
        interval=settings.observe_seconds,
    )
    launcher = Launcher(
        writer,
        executor,
        preparer,
        services.wakeups,
        interval=settings.observe_seconds,
        start_timeout=settings.start_timeout_seconds,
    )
    observer = Observer(
        writer,
        executor,
        services.storage,
        services.hardware,
        interval=settings.observe_seconds,
        start_timeout=settings.start_timeout_seconds,
    )
    reaper = Reaper(
        writer,
        executor,
        services.hardware,
        services.ingest,
        LeftoverShipper(services.storage, services.ingest, services.own_address),
        services.artifacts,
        services.evaluations,
        services.telemetry.curves,
        services.wakeups,
        interval=settings.observe_seconds,
    )
    watchdog = Watchdog(
        writer,
        services.database,
        services.telemetry,
        services.ingest,
        services.figures,
        partial(_watch_policy, services),
        services.findings,
        settings.storage_root,
        services.measure_space,
    )
    sampler = Sampler(
        services.clock,
        executor,
        services.hardware,
        services.figures,
        interval=settings.hardware_seconds,
        keep=timedelta(days=settings.hardware_days),
    )
    alerter = Alerter(
        writer,
        services.database,
        services.alerts,
        services.alert_writer,
        services.telemetry,
        services.figures,
        services.wakeups,
    )
    deliverer = Deliverer(services.clock, services.webhooks, Sender(parse_hosts(settings.webhook_hosts)))
    joining = () if services.agent_token is None else (_joiner(services, services.agent_token),)
    roles: tuple[Role, ...] = (
        *joining,
        *_slurm_watch(services),
        placer,
        launcher,
        observer,
        reaper,
        Hasher(writer, services.artifacts),
        OrphanSweeper(writer, executor),
        Retainer(services.retention, services.figures),
        sampler,
        watchdog,
        alerter,
        deliverer,
        Sweeper(services.sweep_progress, interval=settings.observe_seconds),
        Follower(services.follow_ups, services.clock, interval=settings.observe_seconds),
    )
    return BackgroundRoles(services.clock, services.ledger, leases, services.wakeups, roles)


def _joiner(services: Services, token: AgentToken) -> Role:
    """Its imports are of consoles with nodes alone."""
    from tuneplane_node.client import NodeClient
    from tuneplane_server.background.joiner import Joiner
    from tuneplane_server.storage.identity import StorageIdentity

    connect = partial(NodeClient, token=token, ca_file=services.settings.agent_ca_file)
    identity = StorageIdentity(services.settings.storage_root)
    return Joiner(services.clock, services.nodes, identity, connect, services.findings)


def _slurm_watch(services: Services) -> tuple[Role, ...]:
    """Its imports are of consoles with Slurm alone."""
    if services.slurm is None:
        return ()
    from tuneplane_server.background.slurm_watch import SlurmWatch
    from tuneplane_server.executors.slurm.executor import SlurmExecutor

    executor = services.executor
    if not isinstance(executor, SlurmExecutor):  # given by a test
        return ()
    return (SlurmWatch(services.clock, executor.client, services.slurm, services.findings),)


async def _watch_policy(services: Services) -> WatchPolicy:
    return WatchPolicy(**(await services.governance.watchdog()).model_dump())


def build_duty(services: Services) -> Duty:
    consoles = Consoles(
        services.database,
        services.clock,
        services.instance,
        redis=services.settings.redis_url is not None,
        one_console=services.executor.capabilities().one_console,
        locked=services.instance_locked,
    )
    return Duty(consoles, services.roles, services.findings)
