"""`tuneplane-node`: look at this machine as the engine sees it."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import version as installed_version
from typing import TYPE_CHECKING

from tuneplane.i18n import _, language_from_environment, set_language
from tuneplane_node.argparse_words import translate_argparse
from tuneplane_node.engine.problems import Finding, NodeError
from tuneplane_node.settings import NodeSettings

if TYPE_CHECKING:
    from tuneplane_node.engine.inventory import Inventory

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
_INSTANCE = "tuneplane-node-cli"  # these commands launch nothing, so they own nothing
_GIB = 1024**3
# What only another setting mends: starting again does not help, and the unit of systemd knows it by the exit code.
_SETTINGS = ("setting-invalid", "setting-missing", "engine-address", "agent-token-missing", "agent-token-invalid")
_SIGNS = {"error": "✗", "warning": "!", "info": "✓"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `tuneplane-node`; returns the exit code."""
    set_language(language_from_environment())
    translate_argparse()
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except NodeError as problem:
        _print_error(problem.finding())
        return EXIT_USAGE if problem.code in _SETTINGS else EXIT_FAILED
    return code


def serve(_options: argparse.Namespace) -> int:
    """Run this machine's jobs for a console, until a signal; exit code 0 then."""
    from tuneplane_node.agent_token import AgentToken
    from tuneplane_node.daemon.log import set_up_log
    from tuneplane_node.daemon.serving import serve as serve_node

    settings = NodeSettings.load()
    set_up_log(settings.log_format)
    serve_node(settings, AgentToken.load())
    return EXIT_OK


def check(options: argparse.Namespace) -> int:
    """Say whether jobs can run here; exit code 1 when something stands in the way."""
    name, findings = asyncio.run(_check(_settings(options.runtime)))
    broken = any(finding.level == "error" for finding in findings)
    if options.json:
        _print_json({"ok": not broken, "runtime": name, "findings": [asdict(finding) for finding in findings]})
    else:
        print(_("Runtime: {runtime}").format(runtime=name))
        for finding in findings:
            _print_finding(finding)
        print(_("Jobs cannot run here yet.") if broken else _("Jobs can run here."))
    return EXIT_FAILED if broken else EXIT_OK


def inventory(options: argparse.Namespace) -> int:
    """List this machine's CPUs, memory, disk and GPUs."""
    found = asyncio.run(_settings("").engine(_INSTANCE).inventory())
    if options.json:
        _print_json({**asdict(found), "simulated": found.simulated})
        return EXIT_OK
    print("\n".join(_inventory_lines(found)))
    for finding in found.findings:
        _print_finding(finding)
    return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tuneplane-node", description=_("Look at this machine as the engine that runs TunePlane jobs sees it.")
    )
    # The help is given because argparse of Python 3.12 does not translate its own here.
    parser.add_argument(
        "--version",
        action="version",
        version=f"tuneplane-node {installed_version('tuneplane-node')}",
        help=_("show program's version number and exit"),
    )
    commands = parser.add_subparsers(required=True, metavar=_("COMMAND"))
    as_json = argparse.ArgumentParser(add_help=False)
    as_json.add_argument("--json", action="store_true", help=_("print JSON"))
    looking = commands.add_parser("check", parents=[as_json], help=_("whether jobs can run here, and what to know"))
    looking.add_argument("--runtime", default="", help=_("auto, docker, podman or process; default TUNEPLANE_RUNTIME"))
    looking.set_defaults(run=check)
    serving = commands.add_parser("serve", help=_("run jobs of a console on this machine, until a signal"))
    serving.set_defaults(run=serve)
    listing = commands.add_parser("inventory", parents=[as_json], help=_("CPUs, memory, disk and GPUs"))
    listing.set_defaults(run=inventory)
    return parser


def _settings(runtime: str) -> NodeSettings:
    settings = NodeSettings.load()
    return replace(settings, runtime=runtime) if runtime else settings


async def _check(settings: NodeSettings) -> tuple[str, list[Finding]]:
    from tuneplane_node.daemon.checks import check_machine

    engine = settings.engine(_INSTANCE)
    try:
        return await engine.runtime_name(), await check_machine(settings, engine)
    finally:
        await engine.close()


def _inventory_lines(found: Inventory) -> list[str]:
    rows = [
        (_("Machine"), f"{found.hostname} ({found.architecture}, Linux {found.kernel})"),
        (_("CPUs"), f"{found.cpus} × {found.cpu_model}"),
        (_("Memory"), _("{total:.0f} GiB, {free:.0f} GiB available").format(total=found.memory_bytes / _GIB, free=found.memory_available_bytes / _GIB)),
        (_("Disk"), _("{total:.0f} GiB, {free:.0f} GiB free").format(total=found.disk_bytes / _GIB, free=found.disk_free_bytes / _GIB)),
        (_("GPUs"), str(len(found.gpus)) if found.gpus else _("none")),
    ]  # fmt: skip
    lines = [_("{name}: {value}").format(name=name, value=value) for name, value in rows]
    for gpu in found.gpus:
        memory = f", {gpu.memory_bytes / _GIB:.0f} GiB" if gpu.memory_bytes else ""
        lines.append(f"  {gpu.index}: {gpu.series} ({gpu.name}{memory}){' ' + _('simulated') if gpu.simulated else ''}")
    return lines


def _print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


def _print_finding(finding: Finding) -> None:
    print(f"{_SIGNS[finding.level]} {finding.text}")
    for extra in (finding.detail, finding.hint):
        if extra:
            print(f"    {extra}")


def _print_error(finding: Finding) -> None:
    print(f"tuneplane-node: {finding.text} [{finding.code}]", file=sys.stderr)
    for extra in (finding.detail, finding.hint):
        if extra:
            print(f"    {extra}", file=sys.stderr)
