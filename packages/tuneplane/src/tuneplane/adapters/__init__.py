"""One module per framework: capsule and machine in, command, environment and files out. Pure; standard library only.

`compile(capsule, machine)` is what the runner calls on the real machine and what the server calls to show a plan.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict, Mapping, Tuple

from tuneplane.adapters import custom, evalkit, ms_swift, nemo_rl, openrlhf, pytorch, trl, verl
from tuneplane.adapters.command import AdapterError, Command, LogHint, Machine
from tuneplane.adapters.export import compile_export

__all__ = ["FRAMEWORKS", "AdapterError", "Command", "LogHint", "Machine", "compile"]

FRAMEWORKS: Dict[str, Callable[[Mapping[str, Any], Machine], Command]] = {
    "custom": custom.compile_command,
    "evalkit": evalkit.compile_command,
    "ms-swift": ms_swift.compile_command,
    "nemo-rl": nemo_rl.compile_command,
    "openrlhf": openrlhf.compile_command,
    "pytorch": pytorch.compile_command,
    "trl": trl.compile_command,
    "verl": verl.compile_command,
}


def compile(capsule: Mapping[str, Any], machine: Machine) -> Command:  # noqa: A001 - the room's one verb
    """The command of one machine of the job; `capsule` is `capsule.json` as plain values.

    Raises `AdapterError` when the capsule asks for what this client's adapters do not know: a newer framework, a
    hyper-parameter without a path, an entry point of another kind. Never falls back to another adapter.
    """
    kind = capsule["jobspec"]["spec"]["framework"]["kind"]
    adapter = FRAMEWORKS.get(kind)
    if adapter is None:
        raise AdapterError(f"no adapter for framework {kind!r}")
    if capsule.get("action"):
        return compile_export(capsule, machine)
    command = adapter(capsule, machine)
    return replace(command, log_hints=command.log_hints + _recipe_hints(capsule))


def _recipe_hints(capsule: Mapping[str, Any]) -> Tuple[LogHint, ...]:
    """Logs that the recipe names, beside those that the adapter knows of."""
    try:
        return tuple(LogHint(**hint) for hint in capsule["recipe"]["adapter_options"].get("log_hints") or ())
    except (TypeError, ValueError) as error:
        raise AdapterError(f"the recipe's log_hints are none: {error}") from error
