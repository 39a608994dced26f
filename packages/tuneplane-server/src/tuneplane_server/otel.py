"""OpenTelemetry, the extra `tuneplane-server[otel]`: traces of requests and roles, and metrics, over OTLP/HTTP.

Installed only when OTEL_EXPORTER_OTLP_* names a collector (`settings.wants_opentelemetry`); nothing of it is imported otherwise. The
SDK reads the other OTEL_* variables itself. Spans carry the route's template and never an address as it was asked for: those can
hold tokens. Metrics have no label that grows with runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuneplane_server import __version__, tracing

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, MeterProvider
    from opentelemetry.trace import Tracer

    from tuneplane_server.services import Services

log = structlog.get_logger(__name__)

NAME = "tuneplane_server"
UNROUTED = "unrouted"  # what no route answers must not make labels
EXPORT_SECONDS = 15.0


class OpenTelemetry:
    """The providers of one process. `spans`, `metrics`: exporters; None: OTLP/HTTP to where OTEL_* says."""

    def __init__(self, services: Services, spans: Any = None, metrics: Any = None) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        resource = Resource.create({"service.name": "tuneplane-server", "service.version": __version__})
        self._traces = TracerProvider(resource=resource)
        self._traces.add_span_processor(BatchSpanProcessor(spans or OTLPSpanExporter()))
        reader = PeriodicExportingMetricReader(metrics or OTLPMetricExporter(), EXPORT_SECONDS * 1000)
        self._metrics = MeterProvider([reader], resource=resource)
        self.tracer = self._traces.get_tracer(NAME, __version__)
        self.durations = _instruments(self._metrics, services)
        tracing.use(_spans(self.tracer))

    def flush(self) -> None:
        """Send what has come together; blocks until it is sent or given up."""
        self._traces.force_flush()
        self._metrics.force_flush()

    def close(self) -> None:
        """As `flush`, and no more after it. Blocking."""
        tracing.use(None)
        self._traces.shutdown()
        self._metrics.shutdown()


def install(services: Services) -> OpenTelemetry | None:
    """None when the extra is not installed: the console runs on and says so."""
    try:
        return OpenTelemetry(services)
    except ImportError as error:
        log.error(
            "OTEL_EXPORTER_OTLP_* is set and the extra is missing: install tuneplane-server[otel]", why=str(error)
        )
        return None


class TraceMiddleware:
    """A span and a duration for every request. The outermost layer, so that refusals of the inner ones are seen too."""

    def __init__(self, app: ASGIApp, *, telemetry: OpenTelemetry) -> None:
        self._app, self._telemetry = app, telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        status = 500  # who raises past every layer is answered so

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        parent = TraceContextTextMapPropagator().extract(dict(Headers(scope=scope)))
        begun = time.monotonic()
        tracer = self._telemetry.tracer
        with tracer.start_as_current_span(scope["method"], parent, SpanKind.SERVER) as span:
            try:
                await self._app(scope, receive, noted)
            finally:
                seen = {
                    "http.request.method": scope["method"],
                    "http.route": _route(scope),
                    "http.response.status_code": status,
                }
                span.update_name(f"{scope['method']} {seen['http.route']}")
                span.set_attributes(seen)
                if status >= 500:
                    span.set_status(Status(StatusCode.ERROR))
                self._telemetry.durations.record(time.monotonic() - begun, seen)


def _route(scope: Scope) -> str:
    """The template of the route that answered, never the address."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else UNROUTED


def _spans(tracer: Tracer) -> tracing.Spans:
    def make(name: str, attributes: Mapping[str, Any]) -> AbstractContextManager[Any]:
        return tracer.start_as_current_span(name, attributes=dict(attributes))

    return make


def _instruments(provider: MeterProvider, services: Services) -> Histogram:
    """What is observed at each export, and the histogram of requests that the middleware fills."""
    from opentelemetry.metrics import CallbackOptions, Observation

    meter = provider.get_meter(NAME, __version__)

    def observed(read: Callable[[], Iterable[tuple[float, dict[str, str]]]]) -> Callable[..., list[Observation]]:
        def call(_options: CallbackOptions) -> list[Observation]:
            return [Observation(value, labels) for value, labels in read()]

        return call

    meters = services.meters
    meter.create_observable_counter(
        "tuneplane.ingest.batches", [observed(lambda: [(n, {"outcome": o}) for o, n in dict(meters.batches).items()])]
    )
    meter.create_observable_counter("tuneplane.ingest.points", [observed(lambda: [(meters.points, {})])])
    meter.create_observable_counter("tuneplane.ingest.bytes", [observed(lambda: [(meters.bytes, {})])], unit="By")
    meter.create_observable_gauge("tuneplane.loop.lag", [observed(lambda: [(services.loop_lag.worst, {})])], unit="s")
    meter.create_observable_gauge("tuneplane.roles.failures", [observed(lambda: _role_failures(services))])
    return meter.create_histogram("http.server.request.duration", unit="s")


def _role_failures(services: Services) -> list[tuple[float, dict[str, str]]]:
    roles = services.running_roles
    return [] if roles is None else [(role.failures, {"role": role.name}) for role in roles.health()]
