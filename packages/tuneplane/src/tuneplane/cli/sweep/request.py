"""A sweep as it is asked for, from the options or from `sweep.yaml`, with everything that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tuneplane.cli.submission import Draft, jobspec
from tuneplane.client.replies import to_refusal
from tuneplane.client.sweeps import SweepConsole, SweepDryRun
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.sweeps.check import check_sweep, typed
from tuneplane.sweeps.file import SWEEP_FILE, placed, read_sweep_file
from tuneplane.sweeps.texts import merge, parse_axes, parse_early_stop, parse_objective
from tuneplane.sweeps.words import DEFAULT_TRIALS, METHODS


@dataclass(frozen=True)
class Wanted:
    """`sweep`: as `contract.sweep` has it, None when it has no right form. `file`, `lines`: where it stands, if it does in a file."""

    sweep: dict[str, Any] | None
    file: Path | None = None
    lines: dict[str, int] | None = None

    def place(self, refusal: Refusal) -> Refusal:
        """With the line of `sweep.yaml` that it is about."""
        return refusal if self.file is None else placed(refusal, self.file, self.lines or {})


def wanted(made: Draft, given: dict[str, Any]) -> Wanted:
    """What varies; what is wrong joins the draft's refusals. `given`: the options of `tp sweep run` by name."""
    version = made.checked.lock["framework"]["version"] if made.checked.lock else None
    entry = made.checked.entry
    known = version if entry is not None and version in entry["manifest"]["runtime"]["versions"] else None
    method, params, refusals = merge({name: parse_axes(entry, f"--{name}", given[name], known) for name in METHODS})
    path = made.experiment.directory / SWEEP_FILE
    base: dict[str, Any] = {}
    lines: dict[str, int] = {}
    from_file = method is None
    if from_file:
        base, wrong, lines = _from_file(path)
        refusals += wrong
    else:
        base = {"method": method, "params": params}
    options, wrong = _options(given)
    made.refusals += [*refusals, *wrong]
    if not base or not base.get("params"):
        return Wanted(None)
    found = Wanted({**base, **options}, path if from_file else None, lines)
    assert found.sweep is not None
    if found.sweep["method"] != "grid":
        found.sweep.setdefault("trials", DEFAULT_TRIALS)
    if entry is not None:
        found = replace(found, sweep=typed(entry, found.sweep))
        assert found.sweep is not None
        made.refusals += [found.place(refusal) for refusal in check_sweep(entry, found.sweep, known)]
        made.refusals = [refusal for refusal in made.refusals if not _comes_by_sweep(refusal, entry, found.sweep)]
    return found


def request_of(made: Draft, found: Wanted) -> dict[str, Any] | None:
    """What the console is sent; None when something of it is missing."""
    spec = jobspec(made)
    return None if spec is None or found.sweep is None else {"sweep": found.sweep, "job": spec}


def ask_console(console: SweepConsole, made: Draft, found: Wanted) -> SweepDryRun | None:
    """What the console says to the whole sweep; its refusals join the draft's, each once. None when there is nothing to ask with."""
    request = request_of(made, found)
    if request is None:
        return None
    answer: SweepDryRun
    try:
        answer = console.dry_run_sweep(request)
        theirs = [to_refusal(item) for item in answer.get("refusals") or []]
    except RefusedError as error:
        answer = {"admitted": False}
        theirs = error.refusals
    before = list(made.refusals)
    for refusal in map(found.place, theirs):
        if not any(refusal.code == other.code and refusal.message == other.message for other in before):
            made.refusals.append(refusal)
    return answer


def _from_file(path: Path) -> tuple[dict[str, Any], list[Refusal], dict[str, int]]:
    if not path.is_file():
        message = _("nothing says what varies")
        hint = _("give --grid NAME=V1,V2, --random, --bayes or --asha, or write {file}").format(file=path.name)
        return {}, [Refusal("request-invalid", message, hint, field="sweep.params")], {}
    return read_sweep_file(path)


def _options(given: dict[str, Any]) -> tuple[dict[str, Any], list[Refusal]]:
    """What the other options say; they go before what stands in the file."""
    objective, wrong = parse_objective(given["objective"])
    early, more = parse_early_stop(given["early_stop"])
    values = {
        "name": given["name"],
        "trials": given["trials"],
        "seed": given["seed"],
        "max_parallel": given["max_parallel"],
        "objective": objective,
        "early_stopping": early,
    }
    return {key: value for key, value in values.items() if value is not None}, [*wrong, *more]


def _comes_by_sweep(refusal: Refusal, entry: dict[str, Any], sweep: dict[str, Any]) -> bool:
    """A required parameter need not stand in config.yaml when the sweep varies it."""
    paths = {
        entry["manifest"]["params"][name]["path"] for name in sweep["params"] if name in entry["manifest"]["params"]
    }
    return refusal.code == "param-required" and refusal.field in paths
