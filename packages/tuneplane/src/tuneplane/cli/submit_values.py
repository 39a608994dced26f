"""Values of `tp submit` options: read, checked, refused with what to write instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuneplane.contract.names import is_env_name, is_segment, parse_hub_ref, parse_owned_ref, parse_run_ref
from tuneplane.contract.refusals import Refusal
from tuneplane.contract.words import is_identity_env
from tuneplane.i18n import _
from tuneplane.lab.jobspec import SubmitOptions

# --then-export -> steps after the run
_AFTER: dict[Any, tuple[dict[str, Any], ...]] = {
    "as-is": ({"export": {}},),
    "merged": ({"export": {"merge_lora": True}},),
}
MAX_SECONDS = 366 * 86400
MAX_RETRIES = 20
RETRY_CLASSES = ("infra", "platform", "user", "policy")
_DURATION = re.compile(r"(\d{1,9})\s*(s|m|min|h|d)?\Z", re.ASCII)
_SECONDS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


class Values:
    """Turns texts into values; what is wrong is collected, so that everything is said at once."""

    def __init__(self) -> None:
        self.refusals: list[Refusal] = []

    def options(self, given: dict[str, Any]) -> SubmitOptions:
        """`given`: the command's options by name."""
        return SubmitOptions(
            display_name=given["name"],
            labels=self.labels(given["label"]),
            model=self.model("--model", "spec.model.base", given["model"]),
            init_from=self.model("--init-from", "spec.model.init_from", given["init_from"]),
            train_data=self.data("--train-data", "spec.data.train", given["train_data"]),
            validation_data=self.data("--validation-data", "spec.data.validation", given["validation_data"]),
            volumes=tuple(given["volume"]),
            image=self.image(given["image"]),
            observability=given["observability"],
            observability_url=self.url(given["observability_url"]),
            env=self.env(given["env"]),
            secrets=tuple(given["secret"]),
            priority=given["priority"],
            max_duration=self.duration("--max-duration", "spec.limits.max_duration", given["max_duration"], least=1),
            grace=self.duration("--grace", "spec.limits.grace", given["grace"], least=0),
            retries=self.retries(given["retries"]),
            on_success=_AFTER.get(given.get("then_export"), ()),  # not every command that submits has it
        )

    def env(self, texts: Sequence[str]) -> dict[str, str]:
        """`NAME=VALUE`; the value is everything after the first `=`, whatever it holds."""
        values: dict[str, str] = {}
        for text in texts:
            name, equals, value = text.partition("=")
            field = f"spec.env.{name[:80]}"
            if not equals or not is_env_name(name):
                message = _("--env {text}: “{name}” is no name of a variable").format(text=name[:80], name=name[:80])
                self._refuse("request-invalid", "spec.env", message, _("write --env NAME=VALUE"))
            elif is_identity_env(name):
                message = _("the environment variable {name} belongs to the platform").format(name=name)
                self._refuse("env-reserved", field, message, _("choose another name"))
            elif name in values:
                self._refuse("request-invalid", field, _("--env gives {name} twice").format(name=name))
            else:
                values[name] = value
        return values

    def labels(self, texts: Sequence[str]) -> dict[str, str]:
        values: dict[str, str] = {}
        for text in texts:
            name, equals, value = text.partition("=")
            if not equals or not is_segment(name):
                self._refuse(
                    "request-invalid", "metadata.labels", _("--label {text} is no name=value").format(text=text[:80])
                )
            else:
                values[name] = value
        return values

    def model(self, option: str, field: str, text: str | None) -> str | None:
        """An absolute path, `hf:`/`ms:`/`tp:` reference or `run/<id>/<kind>`. What looks like one of them, but is not, gets a hint."""
        if text is None:
            return None
        absolute = text.startswith("/") and "\0" not in text and "/../" not in f"{text}/"
        if absolute or parse_hub_ref(text) or parse_run_ref(text):
            return text
        if parse_hub_ref(f"hf:{text}") and not Path(text).exists():
            hint = _("did you mean “{name}”?").format(name=f"hf:{text}")
        elif Path(text).exists():
            hint = _("write the whole path, as the machine of the job sees it: {path}").format(
                path=Path(text).absolute()
            )
        else:
            hint = _("write an absolute path, hf:<owner>/<name>, ms:…, tp:… or run/<id>/<kind>")
        self._refuse(
            "model-missing", field, _("{option} {text}: this is no model").format(option=option, text=text[:200]), hint
        )
        return None

    def image(self, text: str | None) -> str | None:
        """An image with a tag or digest, or the absolute path of a runtime."""
        if text is None:
            return None
        plain = text and not text.startswith("-") and text.isprintable() and " " not in text
        if plain and (text.startswith("/") or "@sha256:" in text or ":" in text.rsplit("/", 1)[-1]):
            return text
        message = _("--image {text}: this is no image with a tag or digest").format(text=text[:200])
        self._refuse(
            "spec-invalid",
            "spec.framework.image",
            message,
            _("write name:tag, name@sha256:<digest>, or the absolute path of an image file"),
        )
        return None

    def url(self, text: str | None) -> str | None:
        if text is None or text.startswith(("http://", "https://")):
            return text
        message = _("--observability-url {text}: this is no http or https address").format(text=text[:200])
        self._refuse("observability-url", "spec.framework.observability_url", message)
        return None

    def data(self, option: str, field: str, text: str | None) -> dict[str, Any] | None:
        if text is None:
            return None
        if text.startswith("/") and "\0" not in text and "/../" not in f"{text}/":
            return {"path": text}
        ref = parse_owned_ref(text)
        if ref is not None and ref.version is not None:
            return {"dataset": text}
        hint = (
            _("write the whole path, as the machine of the job sees it: {path}").format(path=Path(text).absolute())
            if Path(text).exists()
            else _("write <owner>/<name>@<version>, or an absolute path that the machine of the job can see")
        )
        self._refuse(
            "data-missing", field, _("{option} {text}: this is no dataset").format(option=option, text=text[:200]), hint
        )
        return None

    def duration(self, option: str, field: str, text: str | None, *, least: int) -> int | None:
        """Seconds for `3600`, `90s`, `30m`, `2h`, `1d`."""
        if text is None:
            return None
        found = _DURATION.match(text.strip())
        seconds = int(found[1]) * _SECONDS[found[2]] if found else -1
        if least <= seconds <= MAX_SECONDS:
            return seconds
        message = _("{option} {text}: this is no duration").format(option=option, text=text[:40])
        self._refuse("limit-invalid", field, message, _("write seconds, or 90s, 30m, 2h, 1d"))
        return None

    def retries(self, texts: Sequence[str]) -> dict[str, int]:
        """`infra=1`, several or joined by commas."""
        values: dict[str, int] = {}
        for text in (part for item in texts for part in item.split(",")):
            name, _equals, count = text.strip().partition("=")
            if name in RETRY_CLASSES and count.isascii() and count.isdigit() and int(count) <= MAX_RETRIES:
                values[name] = int(count)
                continue
            message = _("--retries {text}: this is no failure class with a number").format(text=text[:40])
            hint = _("write infra=1; classes: {names}; at most {most}").format(
                names=", ".join(RETRY_CLASSES), most=MAX_RETRIES
            )
            self._refuse("limit-invalid", "spec.limits.retries", message, hint)
        return values

    def _refuse(self, code: str, field: str, message: str, hint: str = "") -> None:
        self.refusals.append(Refusal(code, message, hint, field=field))
