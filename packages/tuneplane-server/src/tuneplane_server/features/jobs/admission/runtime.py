"""The runtime resolves to something this executor can run (features/runtimes/resolving.py says how)."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.refusals import Refusal
from tuneplane_server.features.jobs.admission.context import AdmissionContext


def check(context: AdmissionContext) -> Iterator[Refusal]:
    if isinstance(context.runtime, Refusal):
        yield context.runtime
