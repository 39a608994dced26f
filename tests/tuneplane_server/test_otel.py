"""OpenTelemetry against a real OTLP/HTTP receiver of this test; and that without OTEL_* nothing of it is even imported."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.tuneplane_server.harness import Api, Harness
from tuneplane_server import otel, tracing
from tuneplane_server.app import create_app
from tuneplane_server.settings import wants_opentelemetry

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class Collector:
    """What came, decoded as any collector decodes it."""

    def __init__(self) -> None:
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.port = 0

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def metric_names(self) -> set[str]:
        return {
            metric.name
            for request in self.metrics
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            import gzip

            body = self.rfile.read(int(self.headers["content-length"]))
            body = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
            if self.path == "/v1/traces":
                found.traces.append(ExportTraceServiceRequest.FromString(body))
            elif self.path == "/v1/metrics":
                found.metrics.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_args: object) -> None:  # ty: ignore[incompatible-method-override]
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield found
    server.shutdown()
    server.server_close()
    thread.join()


async def test_requests_and_roles_are_traced_and_metrics_sent(
    site: Api, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.port}")
    assert wants_opentelemetry()
    harness = site.harness
    services = harness.services
    app = create_app(services.settings, services.clock, executor=harness.executor, roles=False)
    app.state.services, api = services, Api(harness, app)
    telemetry = app.user_middleware[0].kwargs["telemetry"]
    assert isinstance(telemetry, otel.OpenTelemetry)
    try:
        ada = await harness.user("ada")
        await harness.bring_package(ada)
        job_id = await harness.submit(ada)
        client = await api.client(ada)
        parent = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
        assert (
            await client.get(f"/api/v1/jobs/{job_id}?token=secret-in-an-address", headers=parent)
        ).status_code == 200
        assert (await client.get("/no/such/address")).status_code == 404
        await harness.round()
        telemetry.flush()
    finally:
        telemetry.close()
    spans = {span.name: span for span in collector.spans}
    assert spans["GET /api/v1/jobs/{job_id}"].trace_id.hex() == TRACE
    assert "role launcher" in spans
    assert "secret-in-an-address" not in str(collector.traces)
    assert job_id not in str(spans["GET /api/v1/jobs/{job_id}"])
    assert {"http.server.request.duration", "tuneplane.ingest.points", "tuneplane.loop.lag"} <= collector.metric_names
    assert job_id not in str(collector.metrics), "no label grows with runs"


async def test_a_collector_that_is_away_costs_nothing(site: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    harness = site.harness if isinstance(site, Api) else site
    telemetry = otel.install(harness.services)
    assert telemetry is not None
    with tracing.span("something"):
        pass
    telemetry.close()
    with tracing.span("after the end"):
        pass


def test_without_the_extra_the_console_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    assert otel.install(None) is None  # ty: ignore[invalid-argument-type]


@pytest.mark.parametrize(("env", "wanted"), [
    ({}, False),
    ({"OTEL_SERVICE_NAME": "x"}, False),
    ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
    ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
    ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, False),
])  # fmt: skip
def test_it_is_on_only_when_a_collector_is_named(env: dict[str, str], wanted: bool) -> None:
    assert wants_opentelemetry(env) is wanted


def test_nothing_of_it_is_imported_otherwise() -> None:
    code = (
        "import sys\nfrom tuneplane_server.app import create_app\nfrom tuneplane_server.settings import load_settings\n"
        "create_app(load_settings({}), roles=False)\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk') or name == 'tuneplane_server.otel'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip().endswith("[]")
