"""Says that something is not there because the project does not keep it so long."""

from __future__ import annotations

from tuneplane.cli.job.show_text import local_time
from tuneplane.cli.text import note
from tuneplane.i18n import _


def say_removed(removed_at: str | None) -> bool:
    """Whether the answer of the console told of a removal; then it was said."""
    if not removed_at:
        return False
    note(_("the project's retention removed them, beginning at {time}").format(time=local_time(removed_at)))
    return True
