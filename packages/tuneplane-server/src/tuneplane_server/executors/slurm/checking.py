"""What stands in the way of jobs on a Slurm cluster, as far as the console itself can see; the probe looks from a compute node.

Every finding names the setting that it is about. Nothing here raises for a cluster that is away: that is a finding too.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from tuneplane.i18n import _
from tuneplane_node.daemon.file_lane import FileLane, StorageHangsError
from tuneplane_node.engine.inventory import series_of
from tuneplane_server.db.filesystems import MOUNTINFO, filesystem_of
from tuneplane_server.executors.port import Finding
from tuneplane_server.executors.slurm.cards import NO_CARDS, UNNAMED
from tuneplane_server.executors.slurm.errors import said
from tuneplane_server.executors.slurm.rest.models import (
    Association,
    Health,
    Partition,
    SlurmError,
    SlurmNode,
    SlurmVersionError,
)
from tuneplane_server.executors.slurm.rest.tokens import Token, TokenError, expires_at
from tuneplane_server.slurm_settings import SlurmSettings

LOW_LIFE = 5  # a token is renewed before a fifth of its life is left
LONG_LIFE = timedelta(days=2)  # one that lives longer should have a day left
LANE_SECONDS = 15.0
LOCAL_FILESYSTEMS = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "f2fs", "jfs", "reiserfs"}
)
_AWAY = frozenset({"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "NOT_RESPONDING", "MAINT", "POWERED_DOWN", "FUTURE"})  # fmt: skip


class HealthAsked(Protocol):
    """Of a `SlurmClient`."""

    async def health(self) -> Health: ...


class Cluster(HealthAsked, Protocol):
    """What is asked here of a `SlurmClient`."""

    async def partitions(self) -> list[Partition]: ...
    async def nodes(self) -> list[SlurmNode]: ...
    async def reservations(self) -> list[str]: ...
    async def associations(self) -> list[Association] | None: ...


async def findings(
    client: Cluster, slurm: SlurmSettings, storage_root: Path, *, now: datetime | None = None
) -> list[Finding]:
    """`client` is open. `now`: for the token's expiry."""
    now = now or datetime.now(UTC)
    health, found = await health_findings(client, slurm, now)
    if health is None or not health.controllers_up:
        return found
    try:
        partitions, nodes = await client.partitions(), await client.nodes()
    except SlurmError as error:
        return [*found, problem(error, slurm, now)]
    return [
        *found,
        *partition_findings(slurm, partitions, nodes),
        *await _bookings(client, slurm),
        *await _storage(storage_root, nodes),
    ]


async def health_findings(
    client: HealthAsked, slurm: SlurmSettings, now: datetime
) -> tuple[Health | None, list[Finding]]:
    """Whether Slurm can be asked at all, and how long the token lasts. None: nobody could be asked."""
    try:
        health = await client.health()
    except SlurmError as error:
        return None, [problem(error, slurm, now)]
    token = list(token_findings(health, slurm, now))
    if health.controllers_up:
        return health, [*_version(health, slurm), *token]
    unproved = [item for item in token if item.level != "info"]  # nobody was there to accept it
    return health, [*_version(health, slurm), *unproved, _no_controller()]


def problem(error: SlurmError, slurm: SlurmSettings, now: datetime) -> Finding:
    """An error of the client as a finding. Reads the token's file, to tell one that expired from one that is refused."""
    detail = said(error)
    if isinstance(error, SlurmVersionError):
        text = _("slurmrestd at {url} speaks {offered}; this console knows {known}").format(
            url=slurm.url, offered=", ".join(error.offered) or "-", known=", ".join(error.known)
        )
        hint = _("load a known version in slurmrestd (its option -s or -d), or use a console that knows its versions")
        return Finding("slurm-version", "error", text, hint)
    if error.kind == "auth":
        expired = _expired(slurm, now)
        if expired is not None:
            return expired
        text = _("Slurm does not accept the token of user {user}").format(user=slurm.user)
        return Finding("slurm-token", "error", text, _token_hint(slurm), detail)
    if error.kind == "unreachable":
        text = _("slurmrestd at {url} does not answer as it should").format(url=slurm.url)
        return Finding("slurm-unreachable", "error", text, _way_hint(error, slurm), detail)
    text = _("Slurm refuses to tell about the cluster")
    hint = _("check that TUNEPLANE_SLURM_USER may ask slurmrestd at TUNEPLANE_SLURM_URL")
    return Finding("slurm-refused", "error", text, hint, detail)


def _expired(slurm: SlurmSettings, now: datetime) -> Finding | None:
    secret = slurm.token.get_secret_value() if slurm.token is not None else None
    source = slurm.token_file if secret is None else secret
    try:
        expires = expires_at(Token(source).read()) if source is not None else None
    except TokenError:
        return None  # the client's own words tell it
    return None if expires is None or expires > now else _has_expired(expires, slurm)


def _has_expired(expires: datetime, slurm: SlurmSettings) -> Finding:
    text = _("the token of user {user} expired at {when}").format(user=slurm.user, when=_moment(expires))
    return Finding("slurm-token-expired", "error", text, _token_hint(slurm))


def _moment(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _way_hint(error: SlurmError, slurm: SlurmSettings) -> str:
    if slurm.url.startswith("https:") and any(word in error.text.lower() for word in ("certificate", "ssl", "tls")):
        return _("set TUNEPLANE_SLURM_CA_FILE to the authority of its certificate, or mend the certificate")
    return _("check TUNEPLANE_SLURM_URL, that slurmrestd runs there, and that this machine may reach it")


def _token_hint(slurm: SlurmSettings) -> str:
    if slurm.token_file is not None:
        return _(
            "write a fresh token of TUNEPLANE_SLURM_USER to {file} (on the Slurm side: scontrol token); it is read again by itself"
        ).format(file=slurm.token_file)
    return _("set TUNEPLANE_SLURM_TOKEN_FILE to a file that is kept fresh; TUNEPLANE_SLURM_TOKEN cannot be renewed")


def _version(health: Health, slurm: SlurmSettings) -> Iterator[Finding]:
    text = _("Slurm {version} at {url}, data version {api}").format(
        version=health.version or "?", url=slurm.url, api=health.api
    )
    yield Finding("slurm", "info", text)


def _no_controller() -> Finding:
    text = _("slurmrestd answers, and no slurmctld answers it")
    hint = _("start slurmctld; while it is away nothing new starts, and what runs goes on")
    return Finding("slurm-controller", "error", text, hint)


# --- the token ----------------------------------------------------------------------------------------------------


def token_findings(health: Health, slurm: SlurmSettings, now: datetime) -> Iterator[Finding]:
    """When it expires, said before it bites."""
    expires = health.token_expires_at
    if expires is None:
        text = _("the token of user {user} is accepted; when it expires it does not say").format(user=slurm.user)
        yield Finding("slurm-token", "info", text)
        return
    if expires <= now:
        yield _has_expired(expires, slurm)
        return
    when = _moment(expires)
    text = _("the token of user {user} is accepted and expires at {when}").format(user=slurm.user, when=when)
    if expires - now < _least_life(health):
        yield Finding("slurm-token-expiring", "warning", text, _token_hint(slurm))
    else:
        yield Finding("slurm-token", "info", text)


def _least_life(health: Health) -> timedelta:
    issued, expires = health.token_issued_at, health.token_expires_at
    if issued is None or expires is None or expires <= issued:
        return timedelta(days=1)
    life = expires - issued
    return max(life / LOW_LIFE, timedelta(days=1)) if life > LONG_LIFE else life / LOW_LIFE


# --- partitions ---------------------------------------------------------------------------------------------------


def partition_findings(
    slurm: SlurmSettings, partitions: Sequence[Partition], nodes: Sequence[SlurmNode]
) -> Iterator[Finding]:
    known = {partition.name: partition for partition in partitions}
    wanted = list(slurm.partitions.names)
    if slurm.partitions.default is None:
        default = next((partition.name for partition in partitions if partition.default), None)
        if default is None:
            yield _no_default(known)
        elif default not in wanted:
            wanted.append(default)
    for name in wanted:
        if name in known:
            yield from _one_partition(known[name], slurm, nodes)
        else:
            text = _("Slurm has no partition {partition}").format(partition=name)
            hint = _("change TUNEPLANE_SLURM_PARTITION; there are: {known}").format(known=", ".join(sorted(known)))
            yield Finding("slurm-partition", "error", text, hint)
    yield from _cards_of_profiles(slurm, known, nodes)


def _no_default(known: Iterable[str]) -> Finding:
    """Newer data versions flag none, also where there is one."""
    text = _("Slurm does not say which partition is its default, and the settings name none for every profile")
    hint = _("set TUNEPLANE_SLURM_PARTITION to one of: {known}").format(known=", ".join(sorted(known)) or "-")
    return Finding("slurm-partition", "info", text, hint)


def _one_partition(partition: Partition, slurm: SlurmSettings, nodes: Sequence[SlurmNode]) -> Iterator[Finding]:
    if "UP" not in partition.states:
        text = _("partition {partition} is {state}: jobs wait there and do not begin").format(
            partition=partition.name, state="+".join(sorted(partition.states)) or "?"
        )
        hint = _("ask the cluster's administrators, or change TUNEPLANE_SLURM_PARTITION")
        yield Finding("slurm-partition-down", "error", text, hint)
        return
    own = nodes_of(partition, nodes)
    fit = [node for node in own if not node.states & _AWAY]
    text = _("partition {partition}: {fit} of {count} nodes take work").format(
        partition=partition.name, fit=len(fit), count=len(own)
    )
    away = "; ".join(_why_away(node) for node in own if node not in fit)
    if fit:
        yield Finding("slurm-partition", "info", text, detail=away)
    else:
        yield Finding("slurm-partition-down", "warning", text, _("jobs wait there until a node is back"), away)
    yield from _limits(partition, slurm)


def _why_away(node: SlurmNode) -> str:
    state = "+".join(sorted(node.states))
    return f"{node.name} {state} ({node.reason})" if node.reason else f"{node.name} {state}"


def nodes_of(partition: Partition, nodes: Sequence[SlurmNode]) -> list[SlurmNode]:
    names = frozenset(partition.nodes)
    return [node for node in nodes if node.name in names or partition.name in node.partitions]


def _limits(partition: Partition, slurm: SlurmSettings) -> Iterator[Finding]:
    asked, most = slurm.time_limit_minutes, partition.max_minutes
    if asked is not None and most is not None and asked > most:
        text = _("TUNEPLANE_SLURM_TIME_LIMIT asks for {asked} minutes, and partition {partition} allows {most}").format(
            asked=asked, partition=partition.name, most=most
        )
        hint = _("lower TUNEPLANE_SLURM_TIME_LIMIT, or choose another TUNEPLANE_SLURM_PARTITION")
        yield Finding("slurm-time-limit", "error", text, hint)
    given = partition.default_minutes if partition.default_minutes is not None else most
    if asked is None and given is not None:
        text = _("a job without a limit of its own ends after {minutes} minutes in partition {partition}").format(
            minutes=given, partition=partition.name
        )
        hint = _("set TUNEPLANE_SLURM_TIME_LIMIT (minutes), or give jobs limits of their own")
        yield Finding("slurm-time-limit", "warning", text, hint)


def _cards_of_profiles(
    slurm: SlurmSettings, known: dict[str, Partition], nodes: Sequence[SlurmNode]
) -> Iterator[Finding]:
    for profile, name in slurm.partitions.by_profile.items():
        if profile == NO_CARDS or name not in known:
            continue
        there = {kind for node in nodes_of(known[name], nodes) for kind, count in node.gpus.items() if count}
        if any(is_profile(kind, profile) for kind in there):
            continue
        text = _("partition {partition} has no card that Slurm calls {profile}").format(partition=name, profile=profile)
        hint = _("change TUNEPLANE_SLURM_PARTITION, or the Type in the cluster's gres.conf")
        cards = ", ".join(sorted(kind or "gpu" for kind in there)) or "-"
        detail = _("cards there: {cards}").format(cards=cards)
        yield Finding("slurm-partition-cards", "error", text, hint, detail)


def is_profile(kind: str, profile: str) -> bool:
    """Whether Slurm's name of a card, `h200` or `nvidia_h200`, is the profile; a card without a name may be any."""
    return kind.lower() in ("", UNNAMED) or series_of(kind.replace("_", " ")) == profile


# --- account, QOS, reservation ------------------------------------------------------------------------------------


async def _bookings(client: Cluster, slurm: SlurmSettings) -> list[Finding]:
    """What the settings name is known, where the cluster tells; else a submit tells."""
    found: list[Finding] = []
    try:
        if slurm.reservation is not None and slurm.reservation not in (there := await client.reservations()):
            found.append(_unknown("slurm-reservation", "TUNEPLANE_SLURM_RESERVATION", slurm.reservation, there))
        associations = await client.associations()
    except SlurmError as error:
        text = _("Slurm does not tell which accounts, QOS and reservations user {user} may use").format(user=slurm.user)
        return [*found, Finding("slurm-accounting", "info", text, detail=said(error))]
    return [*found, *association_findings(slurm, associations)]


def association_findings(slurm: SlurmSettings, associations: Sequence[Association] | None) -> Iterator[Finding]:
    if associations is None:
        return
    accounts = {association.account for association in associations}
    if not accounts:
        text = _("user {user} has no association in Slurm's accounting").format(user=slurm.user)
        hint = _("where limits are enforced its jobs are refused: have TUNEPLANE_SLURM_USER added to an account")
        yield Finding("slurm-account", "warning", text, hint)
        return
    if slurm.account is not None and slurm.account not in accounts:
        yield _unknown("slurm-account", "TUNEPLANE_SLURM_ACCOUNT", slurm.account, accounts)
        return
    levels = {name for one in associations if slurm.account in (None, one.account) for name in one.qos}
    for name in slurm.qos.names:
        if name not in levels:
            yield _unknown("slurm-qos", "TUNEPLANE_SLURM_QOS", name, levels)


def _unknown(code: str, setting: str, name: str, there: Iterable[str]) -> Finding:
    text = _("{setting} names {name}, which Slurm does not give to this user").format(setting=setting, name=name)
    hint = _("change {setting}; there are: {known}").format(setting=setting, known=", ".join(sorted(there)) or "-")
    return Finding(code, "error", text, hint)


# --- the storage root ---------------------------------------------------------------------------------------------


async def _storage(root: Path, nodes: Sequence[SlurmNode]) -> list[Finding]:
    if nodes and all(is_here(node.address) for node in nodes):
        return []
    try:
        kind = await FileLane(LANE_SECONDS).run(_filesystem, root)
    except StorageHangsError as error:
        text = _("the storage root {path} does not answer").format(path=root)
        return [Finding("storage-failed", "error", text, _("check the mount of TUNEPLANE_STORAGE_ROOT"), str(error))]
    if kind not in LOCAL_FILESYSTEMS:
        return []
    text = _("the storage root {path} lies on a disk of this machine ({kind})").format(path=root, kind=kind)
    hint = _(
        "every compute node must see it at the same path: export it, or set TUNEPLANE_STORAGE_ROOT to a shared file "
        "system; tuneplane-server doctor --probe looks from there"
    )
    return [Finding("slurm-storage-local", "warning", text, hint)]


def _filesystem(root: Path) -> str:
    return filesystem_of(root, MOUNTINFO.read_text(encoding="utf-8", errors="replace"))


def is_here(address: str) -> bool:
    """Whether an address of a node is this machine, as far as its name tells."""
    return address.startswith("127.") or address in ("::1", "localhost", socket.gethostname(), socket.getfqdn())
