"""The pools together are possible on this executor, if not now then once other runs have ended."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.domain.placement import NoRoom, free_rooms, place
from tuneplane_server.features.hardware.service import all_machines
from tuneplane_server.features.jobs.admission import slurm
from tuneplane_server.features.jobs.admission.context import AdmissionContext
from tuneplane_server.features.queue.pool_words import closest_text, wants_text


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
        yield Refusal(
            "pool-impossible", _no_room(context, context.no_room_ever), _hint(context), field="spec.resources.pools"
        )


def _no_room(context: AdmissionContext, found: NoRoom) -> str:
    """What the first pool without room asks for, and what there is; other pools before it may have taken what it needs."""
    pool, machines = found.pool, all_machines(context.nodes)
    alone = place([pool], free_rooms(machines, ()))
    if not isinstance(alone, NoRoom):
        text = _("{wants}; the other pools of the job leave {fitting} of them")
        return text.format(wants=wants_text(pool), fitting=found.fitting_nodes)
    closest = "" if alone.fitting_nodes else closest_text(pool, machines)
    if closest:
        return _("{wants}; {closest}").format(wants=wants_text(pool), closest=closest)
    return _("{wants}; {fitting} have that").format(wants=wants_text(pool), fitting=alone.fitting_nodes)


def _hint(context: AdmissionContext) -> str:
    listed = _("GET /api/v1/hardware and the hardware page list what there is")
    if context.slurm is None:
        return listed
    return _("{listed}; TUNEPLANE_SLURM_PARTITION on the console decides which partitions those are").format(
        listed=listed
    )
