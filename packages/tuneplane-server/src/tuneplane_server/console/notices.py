"""What of the console itself does not work for now, or is held back on purpose, in sentences for people."""

from __future__ import annotations

from tuneplane_server.console.i18n import _
from tuneplane_server.features.governance.policies import DrainNow
from tuneplane_server.services import Services


def notices(services: Services, drain: DrainNow | None = None) -> list[str]:
    """None while everything works and no maintenance is on."""
    said = [_drained(drain)] if drain is not None and drain.on else []
    said += [_("{text} {hint}").format(text=finding.text, hint=finding.hint) for finding in services.findings.all()]
    roles = services.roles.health()
    if not services.roles.off and all(role.last_tick is None for role in roles):  # off on purpose is a finding
        said.append(
            _(
                "The background roles of this console are off: jobs stay queued and nothing is watched. "
                "What runs already goes on."
            )
        )
    stopped = [role.name for role in roles if not role.healthy]
    if stopped:
        said.append(
            _(
                "Background work of this console has stopped ({roles}): jobs may stay as they are shown here. "
                "What runs already goes on."
            ).format(roles=", ".join(stopped))
        )
    return said


def _drained(drain: DrainNow) -> str:
    text = _(
        "Maintenance since {since} UTC (turned on by {by}): jobs are accepted and wait, none is started. "
        "What runs already goes on to its end."
    ).format(since=f"{drain.since:%Y-%m-%d %H:%M}", by=drain.by)
    return f"{text} {drain.text}".strip()
