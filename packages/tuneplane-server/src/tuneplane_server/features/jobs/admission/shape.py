"""The pools together are possible on this executor, if not now then once other runs have ended."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.features.jobs.admission import slurm
from tuneplane_server.features.jobs.admission.context import AdmissionContext


def check(context: AdmissionContext) -> Iterator[Refusal]:
    pools, able = context.spec.spec.resources.pools, context.capabilities
    if len(pools) > 1 and not able.heterogeneous_pools:
        yield Refusal(
            "pool-heterogeneous",
            _("several pools run only on the executors kuberay and slurm; this console has none of them"),
            _("give one --profile, without roles; TUNEPLANE_EXECUTOR on the console decides which executor it is"),
            field="spec.resources.pools",
        )
    if any(pool.nodes > 1 for pool in pools) and not able.multi_node:
        most = max((profile.gpus_per_node for profile in context.profiles), default=0)
        yield Refusal(
            "pool-impossible",
            _("this console runs jobs on one machine only"),
            _("{less}; several machines need the executor agent or slurm (TUNEPLANE_EXECUTOR on the console)").format(
                less=_("ask for at most {most} GPUs").format(most=most) if most else _("use the profile cpu")
            ),
            field="spec.resources.pools",
        )
    elif context.no_room_ever is not None and not any(slurm.too_large(context)):
        pool = context.no_room_ever.pool
        yield Refusal(
            "pool-impossible",
            _("the pool {name} wants {nodes} machines with {gpus} GPUs, {cpus:g} CPUs and {memory:g} GB each; {fitting} have that").format(
                name=pool.name,
                nodes=pool.nodes,
                gpus=pool.gpus_per_node,
                cpus=pool.cpus,
                memory=pool.memory_gb,
                fitting=context.no_room_ever.fitting_nodes,
            ),
            _hint(context),
            field="spec.resources.pools",
        )  # fmt: skip


def _hint(context: AdmissionContext) -> str:
    listed = _("GET /api/v1/hardware and the hardware page list what there is")
    if context.slurm is None:
        return listed
    return _("{listed}; TUNEPLANE_SLURM_PARTITION on the console decides which partitions those are").format(
        listed=listed
    )
