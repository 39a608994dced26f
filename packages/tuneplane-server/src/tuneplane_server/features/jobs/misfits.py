"""Why a job in its present state cannot be cancelled, paused, resumed, retried or approved: the state named, and what to do instead.

Each function returns the refusal, or None when the job may be.
"""

from __future__ import annotations

from datetime import UTC

from tuneplane.i18n import N_, _
from tuneplane_server.domain.phases import Approval, Desired, Phase
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.web.problems import ProblemError, refused

_OVER = {
    Phase.SUCCEEDED: N_("run {id} is over: it succeeded"),
    Phase.FAILED: N_("run {id} is over: it failed"),
    Phase.CANCELLED: N_("run {id} is over: it was cancelled"),
    Phase.LOST: N_("run {id} is over: it was lost"),
}
_NOT_OVER = {
    Phase.QUEUED: N_("run {id} is not over: it is queued"),
    Phase.STARTING: N_("run {id} is not over: it is starting"),
    Phase.RUNNING: N_("run {id} is not over: it is running"),
    Phase.FINISHING: N_("run {id} is not over: it is finishing"),
}


def of_cancel(row: JobRow) -> ProblemError | None:
    """One that is being cancelled may be cancelled again; one that is over may not, whatever ended it."""
    if not Phase(row.phase).terminal:
        return None
    assert row.finished_at is not None
    ended_at = row.finished_at.astimezone(UTC)
    what = _("{over}, at {time}").format(over=_over(row), time=ended_at.strftime("%Y-%m-%d %H:%M:%S UTC"))
    hint = _("there is nothing left to cancel; tp job show {id} tells how it ended").format(id=row.id)
    more = {"phase": row.phase, "finished_at": ended_at.isoformat()}
    return refused("conflict", what.format(id=row.id), hint, more=more)


def of_pause(row: JobRow) -> ProblemError | None:
    if Phase(row.phase).terminal:
        return _conflict(_over(row), _("tp job resume {id} makes a new run that goes on from its last checkpoint"), row)
    if row.desired == Desired.CANCEL:
        return _conflict(_("run {id} is being cancelled"), _("tp job wait {id} waits until it is over"), row)
    return None


def of_resume(row: JobRow) -> ProblemError | None:
    """For a job that is not over."""
    if Phase(row.phase).terminal:  # it ended while we were asked
        return _conflict(_over(row), _("tp job resume {id} makes a new run that goes on from its last checkpoint"), row)
    if row.desired == Desired.CANCEL:
        hint = _("tp job wait {id} waits until it is over; tp job resume {id} then makes a new run that goes on")
        return _conflict(_("run {id} is being cancelled"), hint, row)
    if row.paused:
        return None
    if row.phase == Phase.QUEUED:
        what = _("run {id} is queued and not paused: it starts by itself")
        return _conflict(what, _("tp job show {id} says what it waits for"), row)
    what = _("{state}, and not paused").format(state=_(_NOT_OVER[Phase(row.phase)]).format(id=row.id))
    return _conflict(what, _("tp job pause {id} stops it so that it can go on later"), row)


def of_choice(row: JobRow) -> ProblemError | None:
    """Whether another checkpoint can be chosen: not before the attempt that is being stopped has saved its last one."""
    if row.phase == Phase.QUEUED:
        return None
    what = _("run {id} is still being stopped, so its last checkpoint is not known yet")
    return _conflict(what, _("choose a checkpoint when tp job show {id} says that it is paused"), row)


def of_retry(row: JobRow) -> ProblemError | None:
    phase = Phase(row.phase)
    if phase.terminal:
        return None
    if row.desired == Desired.CANCEL:
        hint = _("tp job wait {id} waits until it is over; then tp job retry {id}")
        return _conflict(_("run {id} is being cancelled"), hint, row)
    if row.paused:
        what = _("run {id} is not over: it is paused")
        return _conflict(
            what, _("tp job resume {id} lets it go on; tp job cancel {id} ends it, and then it can be retried"), row
        )
    hint = _("wait for its end (tp job wait {id}), or end it first: tp job cancel {id}")
    return _conflict(_(_NOT_OVER[phase]), hint, row)


def of_approval(row: JobRow) -> ProblemError | None:
    """For approving and for rejecting."""
    if Phase(row.phase).terminal:
        return _conflict(_over(row), _("there is nothing left to decide"), row)
    if row.approval == Approval.GIVEN:
        return _conflict(_("run {id} was approved already"), _("tp job cancel {id} ends it"), row)
    if row.approval == Approval.NONE:
        return _conflict(_("run {id} needs no approval"), _("tp job show {id} says what it waits for"), row)
    return None


def _over(row: JobRow) -> str:
    return _(_OVER[Phase(row.phase)])


def _conflict(what: str, hint: str, row: JobRow) -> ProblemError:
    return refused("conflict", what.format(id=row.id), hint.format(id=row.id))
