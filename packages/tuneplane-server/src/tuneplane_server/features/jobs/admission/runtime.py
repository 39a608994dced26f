"""The runtime resolves to something this executor can run (features/runtimes/resolving.py says how), on machines of its architecture."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.refusals import Refusal
from tuneplane_server.domain.placement import PoolRequest
from tuneplane_server.features.hardware.service import CPU_PROFILE
from tuneplane_server.features.jobs.admission.context import AdmissionContext
from tuneplane_server.features.jobs.admission.slurm import nodes_in, partition_of
from tuneplane_server.features.runtimes import words
from tuneplane_server.features.runtimes.entries import architecture_of


def check(context: AdmissionContext) -> Iterator[Refusal]:
    runtime = context.runtime
    if isinstance(runtime, Refusal):
        yield runtime
        return
    if runtime is None or runtime.architecture is None:
        return
    for pool in context.pools:
        have = _architectures(context, pool)
        if have and None not in have and runtime.architecture not in have:
            message, hint = words.other_architecture(
                runtime.runtime_id, runtime.architecture, sorted(map(str, have)), context.registry_file
            )
            yield Refusal("runtime-form", message, hint, field="spec.framework")
            return


def _architectures(context: AdmissionContext, pool: PoolRequest) -> set[str | None]:
    """Of the machines that the pool may get; with None among them when not every one is known."""
    nodes = context.nodes
    if context.slurm is not None:
        nodes = nodes_in(nodes, partition_of(context, pool.profile))
    return {
        architecture_of(str(node.facts.get("architecture", "")))
        for node in nodes
        if pool.profile == CPU_PROFILE or any(gpu.profile == pool.profile for gpu in node.gpus)
    }
