"""The fields of a quota: their form, what inherits from what, and which figures contradict each other.

A quota holds only the fields that somebody set. A field that is not there is the default's; one that is there and null
means “no limit”, whatever the default says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import N_, _
from tuneplane_server.domain.images import is_pattern
from tuneplane_server.domain.quotas import Limits
from tuneplane_server.web.form_words import form_words

MOST_GPUS = 1_000_000
MOST_JOBS = 1_000_000
MOST_DAY_HOURS = 24 * MOST_GPUS
MOST_MONTH_HOURS = 31 * MOST_DAY_HOURS
MOST_STORAGE_GB = 1_000_000_000
LONGEST_SECONDS = 366 * 86400  # as in the JobSpec
LEAST_PRIORITY, MOST_PRIORITY = -100, 100  # as in the JobSpec
MAX_ENTRIES = 100


class LimitsInput(BaseModel):
    """Limits as an administrator sets them. Hours are GPU-hours, storage is in GB (10^9 bytes), `max_seconds` is a run's longest time.

    Left out: as the default says. null: no limit.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    gpus: int | None = Field(default=None, ge=0, le=MOST_GPUS)
    jobs: int | None = Field(default=None, ge=0, le=MOST_JOBS)
    queued_jobs: int | None = Field(default=None, ge=0, le=MOST_JOBS)
    gpu_hours_day: float | None = Field(default=None, ge=0, le=MOST_DAY_HOURS, allow_inf_nan=False)
    gpu_hours_month: float | None = Field(default=None, ge=0, le=MOST_MONTH_HOURS, allow_inf_nan=False)
    storage_gb: float | None = Field(default=None, ge=0, le=MOST_STORAGE_GB, allow_inf_nan=False)
    profiles: list[Annotated[str, Field(min_length=1, max_length=63)]] | None = Field(
        default=None, min_length=1, max_length=MAX_ENTRIES
    )
    images: list[Annotated[str, Field(min_length=1, max_length=300)]] | None = Field(
        default=None, min_length=1, max_length=MAX_ENTRIES
    )
    max_seconds: int | None = Field(default=None, ge=1, le=LONGEST_SECONDS)
    max_priority: int | None = Field(default=None, ge=LEAST_PRIORITY, le=MOST_PRIORITY)


FIELDS = tuple(LimitsInput.model_fields)
# Of two in one row, the first may not be above the second.
_ORDERED = (("gpu_hours_day", "gpu_hours_month"),)
_NOUNS = {
    "gpus": N_("GPUs at once"),
    "jobs": N_("jobs at once"),
    "queued_jobs": N_("waiting jobs"),
    "gpu_hours_day": N_("GPU-hours a day"),
    "gpu_hours_month": N_("GPU-hours a month"),
    "storage_gb": N_("GB of storage"),
    "profiles": N_("allowed profiles"),
    "images": N_("allowed images"),
    "max_seconds": N_("seconds of one run"),
    "max_priority": N_("highest priority"),
}


def noun(field: str) -> str:
    """What a field counts, in the reader's language."""
    return _(_NOUNS[field])


def parse_limits(raw: Any) -> tuple[dict[str, Any], list[Refusal]]:
    """(the fields that are set, []) or ({}, everything that is wrong with their form)."""
    try:
        checked = LimitsInput.model_validate(raw)
    except ValidationError as error:
        return {}, [_refusal(item) for item in error.errors(include_url=False)[:MAX_ENTRIES]]
    values = checked.model_dump(exclude_unset=True)
    wrong = [pattern for pattern in values.get("images") or () if not is_pattern(pattern)]
    refusals = [
        Refusal(
            "quota-invalid",
            _("“{pattern}” is no pattern of images").format(pattern=pattern[:80]),
            _("write registry/path/*, registry/path/name:tag or registry/path/*@sha256:*"),
            field="limits.images",
        )
        for pattern in wrong
    ]
    for name in ("profiles", "images"):
        if values.get(name):
            values[name] = list(dict.fromkeys(values[name]))
    return ({}, refusals) if refusals else (values, [])


def _refusal(item: Any) -> Refusal:
    field = ".".join(str(part) for part in ("limits", *item["loc"]))
    if item["type"] == "extra_forbidden":
        hint = _("fields: {fields}").format(fields=", ".join(FIELDS))
        name = str(item["loc"][0])[:80]
        return Refusal("quota-invalid", _("a quota has no field “{field}”").format(field=name), hint, field=field)
    return Refusal(
        "quota-invalid",
        _("{field} {what}").format(field=field, what=form_words(item)),
        _("null means no limit; leave the field out to take the default's"),
        field=field,
    )


def merged(own: Mapping[str, Any], default: Mapping[str, Any]) -> Limits:
    """The limits in force: own value, else the default's, else none."""
    values = {**default, **own}
    for name in ("profiles", "images"):
        if values.get(name) is not None:
            values[name] = tuple(values[name])
    return Limits(**{name: values[name] for name in FIELDS if name in values})


def source_of(field: str, own: Mapping[str, Any], default: Mapping[str, Any]) -> Literal["own", "default"] | None:
    """Where a limit comes from; None when there is none set."""
    if field in own:
        return "own"
    return "default" if field in default else None


def contradictions(limits: Limits, whose: str) -> list[Refusal]:
    """Figures of one quota, as they are in force, that cannot both be meant. `whose`: for the sentence."""
    return [
        Refusal(
            "quota-contradictory",
            _("{whose} would have {figure} {noun}, more than its {limit} {larger}").format(
                whose=whose,
                figure=figure(getattr(limits, smaller)),
                noun=noun(smaller),
                limit=figure(getattr(limits, larger)),
                larger=noun(larger),
            ),
            _("lower the first or raise the second; both may be set at once"),
            field=f"limits.{smaller}",
        )
        for smaller, larger in _ORDERED
        if above(getattr(limits, smaller), getattr(limits, larger))
    ]


def beyond(project: Limits, owner: Limits, whose: str, owner_text: str, fields: frozenset[str]) -> list[Refusal]:
    """Limits of a project, among `fields`, that its owner could never reach, because the owner's own are lower."""
    found = []
    for field in FIELDS:
        mine, theirs = getattr(project, field), getattr(owner, field)
        if field not in fields or field in ("profiles", "images") or not above(mine, theirs):
            continue
        found.append(
            Refusal(
                "quota-contradictory",
                _("{whose} would have {figure} {noun}, and {owner} may have {limit}").format(
                    whose=whose, figure=figure(mine), noun=noun(field), owner=owner_text, limit=figure(theirs)
                ),
                _("a project's runs count for its owner too: raise the owner's quota first, or set at most {limit}").format(
                    limit=figure(theirs)
                ),
                field=f"limits.{field}",
            )
        )  # fmt: skip
    return found


def above(value: float | None, limit: float | None) -> bool:
    """Whether a figure is over another; nothing is over no limit, and no figure of its own is over none."""
    return value is not None and limit is not None and value > limit


def figure(value: float | None) -> str:
    """A number for a sentence: at most two decimals, none when it is whole."""
    if value is None:
        return _("no limit")
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
