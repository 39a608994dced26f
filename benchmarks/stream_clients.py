"""One client process of the streams benchmark. Runners are real: spool on disk, shipper, heartbeats over the runner's own HTTP client.

`python -m benchmarks.stream_clients KIND SECONDS RATE URL SECRET [URL SECRET …]`: `log` prints RATE bytes a second for one run
(0: as fast as its spool takes them, up to a gigabyte); `runners` reports for all of them like ordinary runs, one step a second.
Every line that begins with `T` says when it was printed.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import threading
import time

from tuneplane.contract.words import STREAM_LOG, STREAM_METRIC
from tuneplane.runner import limits
from tuneplane.runner.cursor import Cursor
from tuneplane.runner.shipper import Shipper
from tuneplane.runner.spool import Spool
from tuneplane.runner.wire import IngestClient

LINE = (
    "step=1234 loss=1.234567 grad_norm=0.98765 learning_rate=1.0e-05 tokens_per_second=12345.6 epoch=0.12 eta=1:23:45\n"
)
TICK = 0.05
FLOOD_BYTES = 10**9
SCALARS = 8
HEARTBEAT_SECONDS = 10.0


def log(url: str, secret: str, seconds: float, rate: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        spool = Spool(folder, 1, 0)
        shipper = Shipper(Cursor(spool.directory), IngestClient(url, secret), 1, lambda text: None)
        shipper.start()
        begin = time.monotonic()
        printed = dropped = 0
        while (now := time.monotonic()) - begin < seconds and (rate or printed < FLOOD_BYTES):
            size = int(rate * TICK) if rate else limits.READ_BYTES
            text = LINE * (size // len(LINE)) + f"T {time.time():.6f}\n"
            for start in range(0, len(text), limits.READ_BYTES - 1024):
                piece = text[start : start + limits.READ_BYTES - 1024]
                taken = spool.append(STREAM_LOG, 0, {"time": time.time(), "fd": "stdout", "data": piece})
                printed += len(piece)
                dropped += 0 if taken else len(piece)
            spool.flush()
            shipper.poke()
            if rate:
                time.sleep(max(0.0, TICK - (time.monotonic() - now)))
        took = time.monotonic() - begin
        drained = shipper.drain(60, lambda: False)
        spool.close()
    return {
        "printed": printed,
        "dropped_here": dropped,
        "seconds": took,
        "drained": drained,
        "errors": int(shipper.denied),
    }


def runners(targets: list[tuple[str, str]], seconds: float) -> dict[str, float]:
    found = {"requests": 0, "errors": 0, "later": 0}
    lock = threading.Lock()

    def one(number: int, url: str, secret: str) -> None:
        time.sleep(random.Random(number).random())
        client = IngestClient(url, secret)
        begin = time.monotonic()
        step, beat = 0, -HEARTBEAT_SECONDS
        while (now := time.monotonic()) - begin < seconds:
            step += 1
            kinds = [client.send_batch(_step(step)).kind]
            if now - beat >= HEARTBEAT_SECONDS:
                kinds.append(
                    client.send_heartbeat({"attempt": 1, "rank": 0, "state": "running", "time": time.time()}).kind
                )
                beat = now
            with lock:
                found["requests"] += len(kinds)
                found["later"] += kinds.count("later")
                found["errors"] += len(kinds) - kinds.count("ok") - kinds.count("later")
            time.sleep(max(0.0, 1.0 - (time.monotonic() - now)))

    threads = [threading.Thread(target=one, args=(n, *target)) for n, target in enumerate(targets)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dict(found)


def _step(step: int) -> list[bytes]:
    now = time.time()
    head = {"attempt": 1, "rank": 0, "seq": step}
    series = {f"train/m{n}": {"step": [step], "time": [now], "value": [random.random()]} for n in range(SCALARS)}
    records = [
        head | {"stream": STREAM_METRIC, "series": series},
        head | {"stream": STREAM_LOG, "time": now, "fd": "stdout", "data": 5 * LINE},
    ]
    return [json.dumps(record).encode() for record in records]


def main(kind: str, seconds: float, rate: int, rest: list[str]) -> None:
    targets = list(zip(rest[::2], rest[1::2], strict=True))
    print(json.dumps(log(*targets[0], seconds, rate) if kind == "log" else runners(targets, seconds)))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
