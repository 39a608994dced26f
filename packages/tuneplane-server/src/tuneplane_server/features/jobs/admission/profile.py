"""Every pool names a profile of this server, with as many cards as its machines have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tuneplane.contract.profile import match_profile
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane_server.features.hardware.service import CPU_PROFILE
from tuneplane_server.features.jobs.admission.context import AdmissionContext


def check(context: AdmissionContext) -> Iterator[Refusal]:
    known = {profile.name: profile for profile in context.profiles}
    for index, pool in enumerate(context.spec.spec.resources.pools):
        field = f"spec.resources.pools.{index}"
        try:
            profile = known[match_profile(pool.series, known)]
        except RefusedError as error:
            yield from (_placed(context, refusal, f"{field}.series") for refusal in error.refusals)
            continue
        if pool.series == CPU_PROFILE and pool.gpus_per_node:
            message = _("the profile cpu has no GPUs")
            yield Refusal("profile-invalid", message, _("write --profile cpu"), field=f"{field}.gpus_per_node")
        elif pool.series != CPU_PROFILE and not pool.gpus_per_node:
            message = _("a pool of {profile} without GPUs makes no sense").format(profile=pool.series)
            yield Refusal("profile-invalid", message, _("use the profile cpu"), field=f"{field}.gpus_per_node")
        elif pool.gpus_per_node > profile.gpus_per_node:
            yield Refusal(
                "pool-impossible",
                _("no machine of {profile} has {wanted} GPUs; the largest has {most}").format(
                    profile=pool.series, wanted=pool.gpus_per_node, most=profile.gpus_per_node
                ),
                _said(
                    context,
                    _("ask for at most {most} on one machine, or a whole multiple of it").format(
                        most=profile.gpus_per_node
                    ),
                ),
                field=f"{field}.gpus_per_node",
            )


def _placed(context: AdmissionContext, refusal: Refusal, field: str) -> Refusal:
    return replace(refusal, field=field, hint=_said(context, refusal.hint))


def _said(context: AdmissionContext, hint: str) -> str:
    """Slurm's machines are those of the partitions that the settings name."""
    if context.slurm is None:
        return hint
    return _("{hint}; TUNEPLANE_SLURM_PARTITION on the console decides which partitions count").format(hint=hint)
