"""What `/metrics` shows. Labels are roles, phases, profiles and codes: their number does not grow with runs or people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog
from sqlalchemy.exc import SQLAlchemyError

from tuneplane_server.background.roles import RoleHealth
from tuneplane_server.domain.findings import FINDINGS
from tuneplane_server.features.hardware.service import Profile
from tuneplane_server.meters import LATENCY_BOUNDS, OUTCOMES, Histogram, Meters
from tuneplane_server.services import Services
from tuneplane_server.storage.space import Space

if TYPE_CHECKING:
    from prometheus_client import Metric

log = structlog.get_logger(__name__)

DELIVERY_STATES = ("pending", "delivered", "failed")
PHASES = ("queued", "starting", "running", "finishing", "succeeded", "failed", "cancelled", "lost")


@dataclass(frozen=True, eq=False)  # a registry keeps its collectors by identity
class Gauges:
    """A collector over values that were read a moment ago. `phases`, `profiles`: None while the database is away; `redis`: None
    when none is configured; `space`: None when the disk cannot be asked.
    """

    roles: Sequence[RoleHealth]
    phases: dict[str, int] | None
    profiles: Sequence[Profile] | None
    space: Space | None
    consoles: int
    redis: bool | None
    findings: frozenset[str]
    meters: Meters = field(default_factory=Meters)
    waiting: Mapping[str, int] = field(default_factory=dict)
    lag: float = 0.0
    dropped: Mapping[str, int] | None = None
    deliveries: Mapping[str, int] | None = None
    nodes: Mapping[str, int] | None = None  # health -> how many; None where jobs run on the console's own machine

    def collect(self) -> Iterator[Metric]:
        yield _gauge("tuneplane_up", "1 while the console answers", 1)
        yield from self._rows()
        yield from self._roles()
        if self.space is not None:
            yield _gauge("tuneplane_storage_free_bytes", "Free space of the storage root", self.space.free)
            yield _gauge("tuneplane_storage_bytes", "Size of the disk of the storage root", self.space.total)
        yield _gauge("tuneplane_consoles", "Live consoles on this database, this one included", self.consoles)
        if self.redis is not None:
            yield _gauge("tuneplane_redis_up", "1 while Redis answers", float(self.redis))
        yield from self._telemetry()
        yield _gauge("tuneplane_loop_lag_seconds", "Worst delay of the event loop in the last minute", self.lag)
        found = [(code, float(code in self.findings)) for code in sorted(FINDINGS)]
        yield _labelled("tuneplane_finding", "1 while this is wrong with the console", "code", found)

    def _telemetry(self) -> Iterator[Metric]:
        meters = self.meters
        batches = [(outcome, meters.batches[outcome]) for outcome in OUTCOMES]
        yield _counted("tuneplane_ingest_batches", "Batches of this console by outcome", batches, "outcome")
        records = [(outcome, meters.records[outcome]) for outcome in ("accepted", "duplicate")]
        yield _counted("tuneplane_ingest_records", "Records in stored batches", records, "outcome")
        yield _total("tuneplane_ingest_bytes", "Bytes of batches as they came", meters.bytes)
        yield _total("tuneplane_ingest_points", "Points of metrics that were new", meters.points)
        yield _histogram("tuneplane_ingest_write_seconds", "From a read batch to its commit", meters.writes)
        yield _labelled("tuneplane_queue_length", "What waits in this console", "queue", sorted(self.waiting.items()))
        if self.dropped is not None:
            text = "What quotas of all kept runs did not let in"
            yield _labelled("tuneplane_telemetry_dropped", text, "kind", sorted(self.dropped.items()))
        if self.deliveries is not None:
            states = [(state, self.deliveries.get(state, 0)) for state in DELIVERY_STATES]
            yield _labelled("tuneplane_webhook_deliveries", "Kept webhook deliveries by state", "state", states)

    def _rows(self) -> Iterator[Metric]:
        known = self.phases is not None and self.profiles is not None
        yield _gauge("tuneplane_database_up", "1 while the database answers", float(known))
        if self.phases is None or self.profiles is None:
            return
        counts = [(phase, self.phases.get(phase, 0)) for phase in PHASES]
        yield _labelled("tuneplane_jobs", "Jobs by phase", "phase", counts)
        gpus = [profile for profile in self.profiles if profile.total_gpus]
        yield _labelled("tuneplane_gpus", "GPUs by profile", "profile", [(p.name, p.total_gpus) for p in gpus])
        held = [(profile.name, profile.total_gpus - profile.free_gpus) for profile in gpus]
        yield _labelled("tuneplane_gpus_held", "GPUs held by runs, by profile", "profile", held)
        if self.nodes is not None:
            yield _labelled("tuneplane_nodes", "Nodes by health", "health", sorted(self.nodes.items()))

    def _roles(self) -> Iterator[Metric]:
        roles = self.roles
        ticked = [(role.name, role.last_tick.timestamp()) for role in roles if role.last_tick is not None]
        yield _labelled("tuneplane_role_last_tick_seconds", "Unix time of a role's last tick", "role", ticked)
        yield _labelled("tuneplane_role_on", "0 while a role is off", "role", [(r.name, not r.off) for r in roles])
        yield _counted("tuneplane_role_ticks", "Ticks of a role", [(r.name, r.ticks) for r in roles])
        yield _counted("tuneplane_role_failures", "Failures of a role", [(r.name, r.failures) for r in roles])
        held = [(role.name, role.held) for role in roles]
        yield _labelled("tuneplane_leases", "Rows that a role of this console holds", "role", held)
        busy = [(role.name, role.busy) for role in roles]
        yield _labelled("tuneplane_role_busy", "Handlers of a role at work", "role", busy)


async def read_gauges(services: Services, roles: Sequence[RoleHealth]) -> Gauges:
    redis = None if services.settings.redis_url is None else services.wakeups.connected.is_set()
    phases = profiles = dropped = deliveries = nodes = None
    try:
        phases, profiles = await services.jobs.phase_counts(), await services.hardware.profiles()
        dropped, deliveries = await services.telemetry.dropped(), await services.webhooks.counts()
        nodes = await services.nodes.counts() if services.settings.executor == "agent" else None
    except (SQLAlchemyError, OSError) as error:  # what the process knows of itself is worth more then, not less
        log.warning("the database did not answer for the metrics", error=type(error).__name__)
    return Gauges(
        roles=roles,
        phases=phases,
        profiles=profiles,
        space=await services.measure_space(services.settings.storage_root),
        consoles=1 if services.running_roles is None else len(services.duty.consoles.live),
        redis=redis,
        findings=frozenset(finding.code for finding in services.findings.all()),
        meters=services.meters,
        waiting={"ingest": services.ingest.gate.waiting, "writes": services.telemetry.waiting},
        lag=services.loop_lag.worst,
        dropped=dropped,
        deliveries=deliveries,
        nodes=nodes,
    )


def _gauge(name: str, text: str, value: float) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(name, text, value=value)


def _labelled(name: str, text: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values:
        family.add_metric([key], value)
    return family


def _total(name: str, text: str, value: float) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    return CounterMetricFamily(name, text, value=value)


def _histogram(name: str, text: str, found: Histogram) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    running, buckets = 0, []
    for bound, count in zip((*map(str, LATENCY_BOUNDS), "+Inf"), found.counts, strict=True):
        running += count
        buckets.append((bound, running))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=found.total)


def _counted(name: str, text: str, values: Iterable[tuple[str, int]], label: str = "role") -> Metric:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in values:
        family.add_metric([key], value)
    return family
