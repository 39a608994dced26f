"""From the JSON a client sent to a JobSpec, or everything that is wrong with its form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from tuneplane.contract.jobspec import JobSpec
from tuneplane.contract.refusals import Refusal
from tuneplane.contract.words import is_identity_env
from tuneplane.i18n import _
from tuneplane_server.web.form_words import form_words

MAX_REFUSALS = 100
MAX_DEPTH = 64


def parse_jobspec(raw: Any) -> tuple[JobSpec | None, list[Refusal]]:
    """(JobSpec, []) or (None, refusals). Field names are JSON paths such as `spec.resources.pools.0.nodes`."""
    if too_deep(raw):
        return None, [Refusal("spec-invalid", _("the JobSpec is nested too deeply"))]
    nul = next(_strings_with_nul(raw, ""), None)
    if nul is not None:
        return None, [Refusal("spec-invalid", _("a text holds a NUL character"), field=nul)]
    try:
        return JobSpec.model_validate(raw), []
    except ValidationError as error:
        found = [_refusal(item, raw) for item in error.errors(include_url=False)[:MAX_REFUSALS]]
        return None, found


def _refusal(item: Any, raw: Any) -> Refusal:
    field = ".".join(str(part) for part in item["loc"])
    message = form_words(item)
    if item["type"] == "extra_forbidden":
        return Refusal(
            "spec-unknown-field",
            _("the JobSpec has no field “{field}”").format(field=field),
            _("a newer client may know it: update the console, or use a client of its version"),
            field=field,
        )
    if field == "spec.env" and _names_identity_env(raw):
        return Refusal(
            "env-reserved",
            _("an environment variable of the platform cannot be set: {why}").format(why=message),
            _("choose another name"),
            field=field,
        )
    code = "number-not-finite" if item["type"] == "finite_number" else "spec-invalid"
    return Refusal(code, message if field else _("the JobSpec {what}").format(what=message), field=field)


def _names_identity_env(raw: Any) -> bool:
    env = raw.get("spec", {}).get("env") if isinstance(raw, dict) and isinstance(raw.get("spec"), dict) else None
    return isinstance(env, dict) and any(isinstance(name, str) and is_identity_env(name) for name in env)


def too_deep(raw: Any) -> bool:
    """Whether a JSON value is nested further than anything that is meant."""
    level: list[Any] = [raw]
    for _depth in range(MAX_DEPTH):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def _strings_with_nul(raw: Any, path: str) -> Iterator[str]:
    if isinstance(raw, str) and "\0" in raw:
        yield path
    elif isinstance(raw, dict):
        for key, value in raw.items():
            if "\0" in key:
                yield path
            yield from _strings_with_nul(value, f"{path}.{key}" if path else key)
    elif isinstance(raw, list):
        for index, value in enumerate(raw):
            yield from _strings_with_nul(value, f"{path}.{index}")
