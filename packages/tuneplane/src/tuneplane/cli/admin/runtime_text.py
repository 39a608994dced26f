"""Runtimes in lines."""

from __future__ import annotations

from tuneplane.cli.text import clean, table
from tuneplane.client.admin import RegistryProblem, Runtime, RuntimeList
from tuneplane.i18n import _


def runtimes_text(found: RuntimeList) -> str:
    """A line for each runtime, then why one cannot run and what to add, then what is wrong with the registry file."""
    head = _("this console runs the form {form}; registry file: {file}").format(
        form=found["form"], file=found.get("file") or _("none (TUNEPLANE_RUNTIME_REGISTRY_FILE)")
    )
    columns = [_("RUNTIME"), _("CAN RUN"), _("FORMS"), _("ARCHITECTURE"), _("IMAGE"), _("FROM")]
    text = f"{clean(head)}\n{table(columns, map(_row, found['items']))}"
    text += "".join(f"\n{_why(runtime)}" for runtime in found["items"] if not runtime["usable"])
    text += "".join(f"\n{line}" for runtime in found["items"] for line in _absent(runtime))
    return text + "".join(f"\n{_problem(problem)}" for problem in found.get("problems") or [])


def _row(runtime: Runtime) -> tuple[str, str, str, str, str, str]:
    images = runtime.get("images") or []
    architectures = dict.fromkeys(found for image in images if (found := image.get("architecture")))
    image = runtime.get("image") or (_("any Python") if runtime["usable"] else "-")
    return (
        runtime["runtime_id"],
        _("yes") if runtime["usable"] else _("no"),
        ", ".join(image["form"] for image in images) or "-",
        ", ".join(architectures) or "-",
        image,
        _source(runtime.get("source")),
    )


def _source(source: str | None) -> str:
    return {
        "setting": _("TUNEPLANE_IMAGE_*"),
        "registry": _("registry file"),
        "catalog": _("catalog"),
    }.get(source or "", source or "-")


def _why(runtime: Runtime) -> str:
    hint = runtime.get("hint")
    said = f"{runtime['runtime_id']}: {runtime.get('why', '')}"
    return clean(f"{said}\n  {hint}" if hint else said, keep_lines=True) + "\n"


def _absent(runtime: Runtime) -> list[str]:
    """Paths that the console's own machine does not have; the machines of the jobs may."""
    return [
        _("{runtime_id}: {path} is not there on the console's machine (line {line} of the registry file)").format(
            runtime_id=clean(runtime["runtime_id"]), path=clean(image["image"]), line=image.get("line", 0)
        )
        + "\n"
        for image in runtime.get("images") or []
        if image.get("present") is False
    ]


def _problem(problem: RegistryProblem) -> str:
    hint = problem.get("hint")
    said = f"{problem['where']}: {problem['text']}"
    return clean(f"{said}\n  {hint}" if hint else said, keep_lines=True) + "\n"
