"""How much telemetry one run may keep. Beyond a limit the run goes on; what is not kept is counted and said."""

from __future__ import annotations

from dataclasses import dataclass

from tuneplane.contract.words import MAX_METRIC_NAME, MAX_METRIC_NAMES

MIB = 1024 * 1024


@dataclass(frozen=True)
class TelemetryLimits:
    """Bytes of logs are the raw bytes of the output, of samples their JSON. Names count per rank of an attempt."""

    log_bytes: int = 256 * MIB
    sample_bytes: int = 256 * MIB
    samples: int = 200_000
    events: int = 20_000
    metric_name: int = MAX_METRIC_NAME
    metric_names: int = MAX_METRIC_NAMES
    series: int = 100_000
