"""Filters of a listing of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuneplane.contract.names import is_segment
from tuneplane.contract.words import PHASES
from tuneplane.i18n import _
from tuneplane_server.web.problems import refused


@dataclass(frozen=True)
class JobQuery:
    """`text` is part of run id, experiment, display name, project or method, in any case."""

    owner: str | None = None
    project: str | None = None
    phases: Sequence[str] = ()
    experiment: str | None = None
    text: str | None = None


def check_query(query: JobQuery) -> None:
    """Raises `request-invalid` for a filter that can match nothing because it is no name."""
    names = {"project": query.project, "experiment": query.experiment, "owner": query.owner}
    for field, value in names.items():
        if value is not None and not is_segment(value):
            raise refused("request-invalid", _("“{value}” is no name").format(value=value[:80]), field=field)
    unknown = sorted(set(query.phases) - set(PHASES))
    if unknown:
        message = _("there is no phase “{phase}”").format(phase=unknown[0][:40])
        raise refused("request-invalid", message, _("phases: {phases}").format(phases=", ".join(PHASES)), field="phase")
