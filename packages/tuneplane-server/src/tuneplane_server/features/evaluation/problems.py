"""What may be wrong with a report, in the reader's language."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from tuneplane.i18n import N_, _, ngettext
from tuneplane_server.features.evaluation.reading import REPORT_FILE
from tuneplane_server.web.form_words import form_words

# code -> (what, what to do)
_TEXTS = {
    "link": (
        N_("{file} is a link, or lies behind one; the console follows none"),
        N_("let the job write the file itself"),
    ),
    "too-large": (
        N_("{file} is larger than {limit} MB"),
        N_("a report holds figures; answers of the model go to the samples (tuneplane.report.log_samples)"),
    ),
    "not-json": (
        N_("{file} is not JSON: {what}"),
        N_("it may have been cut off: write it under another name first, then rename it, as results.py of evalkit/benchmark does"),
    ),
    "other-version": (
        N_("{file} has apiVersion “{found}”; this console reads {known}"),
        N_("a newer template may have written it: bring the console up to date"),
    ),
    "other-run": (
        N_("{file} is the report of run {run}"),
        N_("the job has put another run's file there: evaluate again"),
    ),
    "not-a-report": (
        N_("{file} has not the form of a report: {errors}"),
        N_("results.py of evalkit/benchmark writes one in the right form; the manual's page on evaluation describes it"),
    ),
}  # fmt: skip


class ProblemView(BaseModel):
    code: str
    text: str
    hint: str


def problem_view(stored: dict[str, Any] | None) -> ProblemView | None:
    """A code that a later version wrote shows as it is."""
    if stored is None:
        return None
    code, data = stored["code"], stored["data"]
    if code not in _TEXTS:
        return ProblemView(code=code, text=code, hint="")
    text, hint = _TEXTS[code]
    filled = {**data, "file": REPORT_FILE}
    if "errors" in data:
        filled["errors"] = _errors(data)
    return ProblemView(code=code, text=_(text).format(**filled), hint=_(hint))


def _errors(data: dict[str, Any]) -> str:
    said = [" ".join(part for part in (item["at"], form_words(item)) if part) for item in data["errors"]]
    more = data["count"] - len(said)
    if more:
        said.append(ngettext("and {count} more", "and {count} more", more).format(count=more))
    return "; ".join(said)
