"""Words that several rules use."""

from __future__ import annotations

from tuneplane.i18n import _
from tuneplane_server.features.jobs.admission.context import AdmissionContext

NAMED_ADMINISTRATORS = 3


def who_can_change(context: AdmissionContext) -> str:
    """The administrators by name while they are few, else only that it is one of them."""
    names = context.standings.administrators
    if not names or len(names) > NAMED_ADMINISTRATORS:
        return _("an administrator")
    return _(" or ").join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
