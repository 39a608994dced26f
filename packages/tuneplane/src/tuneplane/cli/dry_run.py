"""`tp submit --dry-run`: the JobSpec, what admission says, the exact command, environment and files of the job, the package."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from tuneplane.cli.session import console_for
from tuneplane.cli.submission import Draft, ask_admission, jobspec, scan, shape
from tuneplane.cli.text import clean, fields, write, write_json
from tuneplane.client.errors import ConsoleError
from tuneplane.client.servers import choose
from tuneplane.client.types import DryRun
from tuneplane.contract.refusals import RefusedError
from tuneplane.i18n import _, ngettext
from tuneplane.lab.plan import PackagePlan, show_size
from tuneplane.lab.preview import Preview, preview

SHOWN_FILES = 30
_PLAIN = re.compile(r"[\w@%+=:,./$-]+\Z", re.ASCII)


def dry_run(made: Draft, given: dict[str, Any], server: str | None, *, as_json: bool) -> None:
    """Show everything and change nothing. Raises `RefusedError` with all refusals, after showing what could be worked out."""
    scan(made)
    answer, why_not = _ask(made, given, server)
    spec = jobspec(made)
    seen = _as_planned(_preview(made, spec), (answer or {}).get("plan"))
    if as_json:
        write_json(_as_json(made, spec, answer, why_not, seen))
    else:
        _write_text(made, spec, answer, why_not, seen)
    if made.refusals:
        raise RefusedError(made.refusals)


def _ask(made: Draft, given: dict[str, Any], server: str | None) -> tuple[DryRun | None, str]:
    """(what admission says, or why nobody was asked)."""
    try:
        with console_for(choose(server)) as console:
            shape(made, given, console.hardware())
            return ask_admission(console, made), ""
    except ConsoleError as error:
        if made.pools is None:
            shape(made, given, None)
        return None, error.message


def _preview(made: Draft, spec: dict[str, Any] | None) -> Preview | None:
    if spec is None or made.checked.entry is None:
        return None
    try:
        return preview(spec, made.checked.entry)
    except RefusedError as error:
        made.refusals += error.refusals
        return None


def _as_planned(seen: Preview | None, plan: dict[str, Any] | None) -> Preview | None:
    """The console's own command and files, which hold the real paths, in place of those worked out here."""
    if seen is None or not plan or not plan.get("argv_preview"):
        return seen
    env = dict(sorted({**seen.env, **plan.get("env", {})}.items()))
    return Preview(list(plan["argv_preview"]), seen.cwd, env, dict(plan.get("files", {})), seen.others)


def _as_json(
    made: Draft, spec: dict[str, Any] | None, answer: DryRun | None, why_not: str, seen: Preview | None
) -> dict[str, Any]:
    return {
        "jobspec": spec,
        "admission": {"asked": answer is not None, "why_not": why_not or None, **(answer or {})},
        "refusals": [refusal.to_json() for refusal in made.refusals],
        "plan": None if seen is None else vars(seen),
        "assumed_shape": bool(made.pools and made.pools.assumed),
        "package": None if made.plan is None else package_json(made.plan, made.digest),
    }


def package_json(plan: PackagePlan, digest: str) -> dict[str, Any]:
    return {
        "digest": digest,
        "size": plan.size,
        "files": [{"name": file.name, "size": file.size} for file in plan.files],
        "excluded": [{"name": item.name, "reason": item.reason} for item in plan.excluded],
    }


def _write_text(
    made: Draft, spec: dict[str, Any] | None, answer: DryRun | None, why_not: str, seen: Preview | None
) -> None:
    if spec is not None:
        section(_("JobSpec"), json.dumps(spec, indent=2, ensure_ascii=False))
    section(_("Admission"), _admission(made, answer, why_not))
    if seen is not None:
        title = _("Command of machine {rank}").format(rank=0) if seen.others else _("Command")
        section(title, f"cd {seen.cwd}\n{shell(seen.command)}")
        for rank, command in seen.others.items():
            section(_("Command of machine {rank}").format(rank=rank), f"cd {seen.cwd}\n{shell(command)}")
        section(_("Environment"), fields((name, clean(value)) for name, value in seen.env.items()).rstrip())
        for name, text in seen.files.items():
            section(_("File {name}").format(name=name), text.rstrip())
    if made.plan is not None:
        section(_("Package"), "\n".join(package_lines(made.plan)))


def _admission(made: Draft, answer: DryRun | None, why_not: str) -> str:
    lines = []
    if answer is None:
        lines.append(_("not asked: {why}").format(why=why_not or _("there is no JobSpec yet")))
    else:
        lines.append(_("admitted") if answer["admitted"] else _("refused; the reasons follow"))
        lines += [str(told["text"]) for told in (answer.get("approval"), answer.get("waiting")) if told]
        plan = answer.get("plan") or {}
        lines += [f"{key}: {plan[key]}" for key in ("image", "runtime_id") if plan.get(key)]
    if made.pools is not None and made.pools.assumed:
        lines.append(_("the shape of the pools is assumed; the console knows the real machines"))
    return "\n".join(lines)


def package_lines(plan: PackagePlan) -> list[str]:
    """What a package holds and leaves out, in words."""
    count = ngettext("{count} file, {size}", "{count} files, {size}", len(plan.files))
    lines = [count.format(count=len(plan.files), size=show_size(plan.size))]
    lines += [f"  {file.name}  {show_size(file.size)}" for file in plan.files[:SHOWN_FILES]]
    if len(plan.files) > SHOWN_FILES:
        lines.append("  " + _("… and {count} more").format(count=len(plan.files) - SHOWN_FILES))
    if plan.excluded:
        lines.append(_("left out:"))
        lines += [f"  {item.name}  ({item.reason})" for item in plan.excluded[:SHOWN_FILES]]
    if len(plan.excluded) > SHOWN_FILES:
        lines.append("  " + _("… and {count} more").format(count=len(plan.excluded) - SHOWN_FILES))
    return lines


def section(title: str, text: str) -> None:
    write(f"── {title}\n{text}\n\n")


def shell(command: list[str]) -> str:
    """As one would type it; a variable stays a variable."""
    return " ".join(item if _PLAIN.match(item) else shlex.quote(item) for item in command)
