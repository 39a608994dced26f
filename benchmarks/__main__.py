"""`make bench`: run every benchmark (or those named), print a table, write benchmarks/results.json."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Result

BENCHMARKS = (
    "startup",
    "reporter",
    "console",
    "launch",
    "queue",
    "adoption",
    "ingest",
    "telemetry",
    "streams",
    "nodes",
    "daemon",
    "gang",
)
RESULTS = Path(__file__).parent / "results.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], help="benchmarks to run; all when none is named")
    names = parser.parse_args().names or BENCHMARKS
    results: list[Result] = []
    for name in names:
        print(f"bench: {name} …", flush=True)
        results += importlib.import_module(f"benchmarks.{name}").run()
    _print(results)
    _write(results)
    return 0


def _print(results: list[Result]) -> None:
    table = Table(title=f"{platform.machine()}, {os.cpu_count()} cores, CPython {platform.python_version()}")
    for column in ("measured", "value", "peer", "peer's value", "ratio", "promised"):
        table.add_column(column, justify="right" if column in ("value", "peer's value", "ratio") else "left")
    for result in results:
        ratio = f"{result.ratio:.2f}×" if result.ratio is not None else ""
        peer_value = f"{result.peer_value:.4g} {result.unit}" if result.peer_value is not None else ""
        table.add_row(
            result.name, f"{result.value:.4g} {result.unit}", result.peer or "", peer_value, ratio, result.target
        )
    Console().print(table)


def _write(results: list[Result]) -> None:
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for result in results:
        key = f"{result.name} / {result.peer}" if result.peer else result.name
        known[key] = {
            "value": result.value,
            "unit": result.unit,
            "peer": result.peer,
            "peer_value": result.peer_value,
            "ratio": result.ratio,
            "target": result.target,
        }
    RESULTS.write_text(json.dumps(known, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
