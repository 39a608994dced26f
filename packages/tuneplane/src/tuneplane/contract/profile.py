"""Profile grammar: `[role,role=]name[:total_gpus]` (surface: JobSpec). Pure, no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tuneplane.contract.names import is_segment
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _

MAX_TOTAL_GPUS = 65536 * 1024
MAX_SHOWN = 60
_COUNT = re.compile(r"[0-9]{1,9}\Z", re.ASCII)


@dataclass(frozen=True)
class ProfileRequest:
    """What the user typed: card name, total GPUs (None = the profile's default), roles this pool hosts (empty = all)."""

    name: str
    total_gpus: int | None
    roles: tuple[str, ...] = ()


@dataclass(frozen=True)
class PoolShape:
    """`nodes` machines with `gpus_per_node` cards each."""

    nodes: int
    gpus_per_node: int


def parse_profile(text: str) -> ProfileRequest:
    """Parse one `--profile` value; raises `RefusedError` with code `profile-invalid` when the grammar is broken."""
    roles_part, equals, rest = text.rpartition("=")
    roles = tuple(roles_part.split(",")) if equals else ()
    if equals and not all(is_segment(role) for role in roles):
        raise _invalid(text, _("“{roles}” before “=” is not a list of roles").format(roles=_shown(roles_part)))
    name, colon, count = rest.partition(":")
    if not is_segment(name):
        raise _invalid(text, _("“{name}” is not a profile name").format(name=_shown(name)))
    if not colon:
        return ProfileRequest(name, None, roles)
    if not _COUNT.match(count):
        raise _invalid(text, _("“{count}” is not a number of GPUs in ASCII digits").format(count=_shown(count)))
    total = int(count)
    if total < 1 or total > MAX_TOTAL_GPUS:
        raise _invalid(text, _("the number of GPUs must be at least 1; a job without GPUs uses the profile cpu"))
    return ProfileRequest(name, total, roles)


def shape_pool(total_gpus: int, node_gpus: int) -> PoolShape | None:
    """Nodes × GPUs for a total, or None when it neither fits one node nor is a whole multiple of a node.

    `node_gpus` is the number of cards one node of the profile has.
    """
    if total_gpus <= node_gpus:
        return PoolShape(1, total_gpus)
    if node_gpus and total_gpus % node_gpus == 0:
        return PoolShape(total_gpus // node_gpus, node_gpus)
    return None


def match_profile(name: str, known: Iterable[str]) -> str:
    """The registry's own name for `name`; raises `profile-unknown`, with the right spelling when only the case differs."""
    names: Mapping[str, str] = {item.lower(): item for item in known}
    exact = names.get(name.lower())
    if exact == name:
        return name
    listing = ", ".join(sorted(names.values())) or "-"
    hint = (
        _("did you mean “{name}”?").format(name=exact)
        if exact
        else _("profiles of this server: {names}").format(names=listing)
    )
    raise RefusedError(
        [
            Refusal(
                "profile-unknown",
                _("there is no profile “{name}”").format(name=_shown(name)),
                hint,
                field="spec.resources.pools",
            )
        ]
    )


def _shown(text: str) -> str:
    """What was typed, short enough to be read again in a message."""
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def _invalid(text: str, why: str) -> RefusedError:
    return RefusedError(
        [
            Refusal(
                "profile-invalid",
                _("profile “{text}”: {why}").format(text=_shown(text), why=why),
                _("write name or name:total_gpus, for example h200:8; with roles train=h200:8"),
                field="spec.resources.pools",
            )
        ]
    )
