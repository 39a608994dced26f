"""One client process of the ingest benchmark: sends metrics as fast as they are taken and prints what was acknowledged.

`python -m benchmarks.ingest_clients KIND URL SECRET CLIENT START SECONDS SCALARS STEPS`. START is a Unix time that all clients wait for.
Ours goes through the runner's own HTTP client (gzip, level 1) with lines that the reporter made. The peers' bulk calls get
bodies made beforehand, over a connection that is kept: what their own clients spend must not hold their servers up.
"""

from __future__ import annotations

import http.client
import json
import random
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Protocol
from urllib.parse import urlsplit

from tuneplane.contract.words import STREAM_METRIC
from tuneplane.report.lines import Columns
from tuneplane.runner import frames, limits
from tuneplane.runner.wire import IngestClient

TEMPLATES = 8  # different values, so that no cache of anybody's sees the same body each time
TRACKIO_STEPS = 500  # a request, as its client sends after half a second of a fast loop
MLFLOW_POINTS = 1000  # the most that its log-batch takes
PAUSE_SECONDS = 0.2  # after "later"


class Sender(Protocol):
    def send(self, turn: int) -> int:
        """One request; the points that were acknowledged."""


def names(scalars: int) -> list[str]:
    return [f"train/metric_{index}" for index in range(scalars)]


def rows(scalars: int, steps: int, seed: int) -> Iterator[dict[str, float]]:
    dice = random.Random(seed)
    for _step in range(steps):
        yield {name: 2.0 * dice.random() for name in names(scalars)}


class Ours:
    """A runner with a full spool: batches of `steps` steps, at most the runner's usual 1 MiB before compression."""

    def __init__(self, url: str, secret: str, client: int, scalars: int, steps: int) -> None:
        self._http = IngestClient(url, secret)
        self._seq = 0
        self._templates = [self._template(scalars, steps, TEMPLATES * client + index) for index in range(TEMPLATES)]

    def _template(self, scalars: int, steps: int, seed: int) -> tuple[list[tuple[bytes, bytes]], int]:
        """([what stands around the seq of each record], points)."""
        start = 1.7e9
        entries = [(row, step, start + step / 10, None) for step, row in enumerate(rows(scalars, steps, seed))]
        records, size, points = [], 0, 0
        for line in Columns(lambda _kind, _text: None).lines(0, entries):
            series = json.loads(line)["series"]
            frame = frames.encode(1, STREAM_METRIC, 0, 987654321, {"series": series}).split(b" ", 4)[4].rstrip()
            size += len(frame) + 1
            if records and size > limits.BATCH_RAW_BYTES:
                break
            points += sum(len(columns["value"]) for columns in series.values())
            head, tail = frame.split(b"987654321", 1)
            records.append((head, tail))
        return records, points

    def send(self, turn: int) -> int:
        records, points = self._templates[turn % TEMPLATES]
        payloads = [b"%s%d%s" % (head, self._seq + n, tail) for n, (head, tail) in enumerate(records, 1)]
        while (answer := self._http.send_batch(payloads)).kind == "later":
            time.sleep(answer.retry_after or PAUSE_SECONDS)
        assert answer.kind == "ok", answer
        self._seq += len(records)
        assert answer.body["ack"] == {"1/0/metric": self._seq}, answer
        return points


class _Json:
    """POST of JSON over one connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        self._connection.request("POST", path, body, {"Content-Type": "application/json"} | headers)
        reply = self._connection.getresponse()
        content = reply.read()
        assert reply.status == 200, (reply.status, content[:500])
        return content


class Trackio:
    """`bulk_log` of trackio's server, with the ids by which it tells duplicates."""

    def __init__(self, url: str, secret: str, client: int, scalars: int, steps: int) -> None:
        self._http, self._secret = _Json(url), secret
        self._run, self._points, self._steps = f"run-{client}", scalars * steps, steps
        self._templates = [
            [json.dumps(row) for row in rows(scalars, steps, TEMPLATES * client + index)] for index in range(TEMPLATES)
        ]

    def send(self, turn: int) -> int:
        first = turn * self._steps
        entry = '{"project":"bench","run":"%s","run_id":"%s","metrics":%s,"step":%d,"config":null,"log_id":"%s%024d"}'
        entries = ",".join(
            entry % (self._run, self._run, metrics, step, self._run, step)
            for step, metrics in enumerate(self._templates[turn % TEMPLATES], first)
        )
        body = f'{{"args":[],"kwargs":{{"logs":[{entries}],"hf_token":null}}}}'
        answer = json.loads(self._http.post("/api/bulk_log", body.encode(), {"x-trackio-write-token": self._secret}))
        assert answer.get("error") is None, answer
        return self._points


class Mlflow:
    """`runs/log-batch` of MLflow's tracking server; `secret` is the run's id."""

    def __init__(self, url: str, secret: str, client: int, scalars: int, steps: int) -> None:
        self._http, self._run, self._steps = _Json(url), secret, max(1, MLFLOW_POINTS // scalars)
        self._points = scalars * self._steps
        self._templates = [list(rows(scalars, self._steps, TEMPLATES * client + index)) for index in range(TEMPLATES)]

    def send(self, turn: int) -> int:
        first = turn * self._steps
        metrics = ",".join(
            f'{{"key":"{name}","value":{value!r},"timestamp":{1_700_000_000_000 + step * 100},"step":{step}}}'
            for step, row in enumerate(self._templates[turn % TEMPLATES], first)
            for name, value in row.items()
        )
        body = f'{{"run_id":"{self._run}","metrics":[{metrics}]}}'
        self._http.post("/api/2.0/mlflow/runs/log-batch", body.encode(), {})
        return self._points


SENDERS = {"ours": Ours, "trackio": Trackio, "mlflow": Mlflow}


def main(kind: str, url: str, secret: str, client: int, start: float, seconds: float, scalars: int, steps: int) -> None:
    sender: Sender = SENDERS[kind](url, secret, client, scalars, steps)
    points = sender.send(0)  # connections, caches, the series themselves
    time.sleep(max(0.0, start - time.time()))
    used = _cpu()
    begin = time.perf_counter()
    durations: list[float] = []
    measured = 0
    while (now := time.perf_counter()) - begin < seconds:
        measured += sender.send(len(durations) + 1)
        durations.append(time.perf_counter() - now)
    wall = time.perf_counter() - begin
    found = {
        "points": points + measured,
        "measured": measured,
        "seconds": wall,
        "requests": len(durations),
        "p50_ms": statistics.median(durations) * 1000,
        "p99_ms": sorted(durations)[int(len(durations) * 0.99)] * 1000,
        "cpu": _cpu() - used,
    }
    print(json.dumps(found))


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    kind, url, secret, client, start, seconds, scalars, steps = sys.argv[1:]
    main(kind, url, secret, int(client), float(start), float(seconds), int(scalars), int(steps))
