"""The policies of an installation, by name, with what holds when nobody has set anything."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.features.governance.limits import LONGEST_SECONDS, MOST_GPUS
from tuneplane_server.web.form_words import form_words
from tuneplane_server.web.problems import not_found

MAX_TEXT = 500
Line = Annotated[str, Field(max_length=MAX_TEXT, pattern=r"^[^\x00-\x1f\x7f]*$")]


class PolicyModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Drain(PolicyModel):
    """Maintenance: nothing new is started while it is on; what runs goes on to its end. `text`: why, for everyone to read."""

    on: bool = False
    text: Line = ""


class DrainNow(Drain):
    """With who turned it on, and when; both None while it is off."""

    since: datetime | None = None
    by: str | None = None


class Approval(PolicyModel):
    """A job above either figure waits for an administrator. None: that figure asks for nobody."""

    gpus: int | None = Field(default=None, ge=0, le=MOST_GPUS)
    seconds: int | None = Field(default=None, ge=0, le=LONGEST_SECONDS)


class Watchdog(PolicyModel):
    """What the watchdog looks for (None: it does not), and what it may do by itself. Conditions are shown in any case.

    `stalled_minutes`: no output and no metric; `silent_minutes`: ranks that say nothing while others do;
    `not_finite_reports`: so many reports in a row whose loss is no number.
    """

    stalled_minutes: int | None = Field(default=30, ge=1, le=7 * 1440)
    silent_minutes: int | None = Field(default=10, ge=1, le=7 * 1440)
    not_finite_reports: int | None = Field(default=3, ge=1, le=10_000)
    disk_free_gb: float | None = Field(default=10, ge=0, le=1_000_000, allow_inf_nan=False)
    clock_seconds: int | None = Field(default=60, ge=1, le=86400)
    stop_stalled: bool = False
    stop_not_finite: bool = False


POLICIES: dict[str, type[PolicyModel]] = {"drain": Drain, "approval": Approval, "watchdog": Watchdog}


def policy_model(name: str) -> type[PolicyModel]:
    """The shape of a policy; `not-found` for a name that is none."""
    model = POLICIES.get(name)
    if model is None:
        raise not_found(
            _("there is no policy “{name}”").format(name=name[:40]),
            _("policies: {names}").format(names=", ".join(POLICIES)),
        )
    return model


def parse_policy(name: str, raw: Any) -> tuple[PolicyModel | None, list[Refusal]]:
    """(policy, []) or (None, everything that is wrong with it). A field that is left out takes its default."""
    model = policy_model(name)
    try:
        value = model.model_validate(raw)
    except ValidationError as error:
        return None, [_refusal(name, model, item) for item in error.errors(include_url=False)[:100]]
    contradiction = _contradiction(value)
    return (None, [contradiction]) if contradiction else (value, [])


def _refusal(name: str, model: type[PolicyModel], item: Any) -> Refusal:
    field = ".".join(str(part) for part in ("value", *item["loc"]))
    hint = _("fields: {fields}").format(fields=", ".join(model.model_fields))
    if item["type"] == "extra_forbidden":
        unknown = str(item["loc"][0])[:80]
        message = _("the policy {name} has no field “{field}”").format(name=name, field=unknown)
        return Refusal("policy-invalid", message, hint, field=field)
    return Refusal("policy-invalid", _("{field} {what}").format(field=field, what=form_words(item)), hint, field=field)


def _contradiction(value: PolicyModel) -> Refusal | None:
    """An action that waits for what nobody looks for."""
    if not isinstance(value, Watchdog):
        return None
    for action, looked_for in (("stop_stalled", "stalled_minutes"), ("stop_not_finite", "not_finite_reports")):
        if getattr(value, action) and getattr(value, looked_for) is None:
            return Refusal(
                "policy-contradictory",
                _("{action} stops runs by a sign that {field} turns off").format(action=action, field=looked_for),
                _("set {field} too, or turn {action} off").format(field=looked_for, action=action),
                field=f"value.{action}",
            )
    return None
