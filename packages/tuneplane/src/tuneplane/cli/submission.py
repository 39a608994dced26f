"""The steps of a submission: check here, plan the package, ask the console, send the package, send the JobSpec.

Everything that is wrong is said at once: what is found here, together with what admission finds in the same JobSpec.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any

from tuneplane.cli.catalogs import compare_catalogs
from tuneplane.cli.submit_values import Values
from tuneplane.client.http import Console
from tuneplane.client.replies import to_refusal
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.lab.check import Checked, check_experiment
from tuneplane.lab.experiments import Experiment
from tuneplane.lab.find import Lab
from tuneplane.lab.jobspec import NO_PACKAGE, Origin, SubmitOptions, assemble, spec_data
from tuneplane.lab.pack import write_package
from tuneplane.lab.plan import PackagePlan, plan_package
from tuneplane.lab.pools import CPU_PROFILE, Pools, make_pools
from tuneplane.lab.provenance import GitState, git_state
from tuneplane.recipes.lock import renew_lock
from tuneplane.recipes.needs import missing_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tuneplane.client.types import DryRun, Hardware, Job

LOCK_CODES = frozenset({"lock-tampered", "lock-stale", "lock-runtime-changed", "runtime-removed"})


@dataclass
class Draft:
    """A submission so far. `refusals` grows; `pools` is set once they are known, `digest` once the package is written."""

    lab: Lab
    checked: Checked
    options: SubmitOptions
    plan: PackagePlan | None
    refusals: list[Refusal]
    git: GitState = field(default_factory=GitState)
    pools: Pools | None = None
    digest: str = NO_PACKAGE

    @property
    def experiment(self) -> Experiment:
        return self.checked.experiment


def draft(lab: Lab, experiment: Experiment, given: dict[str, Any]) -> Draft:
    """Everything that can be found out without a console; `given`: the options of `tp submit` by name."""
    checked = check_experiment(lab, experiment, given["set"])
    values = Values()
    options = values.options(given)
    refusals = [*checked.refusals, *values.refusals, *_missing(checked, options, given)]
    plan = None
    try:
        plan = plan_package(lab, experiment)
    except RefusedError as error:
        refusals += error.refusals
    return Draft(lab, checked, options, plan, refusals, git_state(lab, experiment))


def _missing(checked: Checked, options: SubmitOptions, given: dict[str, Any]) -> list[Refusal]:
    """What the recipe wants to be told and neither the experiment nor the command line says."""
    if checked.entry is None:
        return []
    model = {"base": options.model, "init_from": options.init_from}
    data = {} if checked.config is None else spec_data(checked.config, options)
    asked = missing_inputs(checked.entry["manifest"], model, data)
    # A config that cannot be read may well name its data.
    known = [item for item in asked if checked.config is not None or item.field != "spec.data.train"]
    return [*known, *_missing_url(checked, options, given)]


def _missing_url(checked: Checked, options: SubmitOptions, given: dict[str, Any]) -> list[Refusal]:
    """`external` observability is the default of some recipes, and says where its curves are."""
    if checked.entry is None or given["observability_url"]:
        return []
    watched = options.observability or checked.entry["manifest"]["adapter_options"]["observability"]
    if watched != "external":
        return []
    return [
        Refusal(
            "observability-url",
            _("a run with external observability needs the address where its curves are"),
            _("add --observability-url https://…"),
            field="spec.framework.observability_url",
        )
    ]


def shape(made: Draft, given: dict[str, Any], hardware: Hardware | None) -> None:
    """Work out the pools; `hardware`: the console's, None without a console."""
    profiles = None if hardware is None else hardware["profiles"]
    pools, refusals = make_pools(given["profile"], profiles, cpus=given["cpus"], memory_gb=given["memory_gb"])
    made.refusals += [_with_setting(refusal, hardware) for refusal in refusals]
    made.pools = None if refusals else pools


def _with_setting(refusal: Refusal, hardware: Hardware | None) -> Refusal:
    """What Slurm's partitions have depends on a setting of the console, which says so itself only where it is asked."""
    executor = ((hardware or {}).get("capabilities") or {}).get("executor")
    if executor != "slurm" or refusal.code not in ("profile-unknown", "pool-impossible"):
        return refusal
    said = _("{hint}; TUNEPLANE_SLURM_PARTITION on the console decides which partitions count").format(
        hint=refusal.hint
    )
    return replace(refusal, hint=said)


def jobspec(made: Draft, pools: Pools | None = None, lock: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """The JobSpec as far as it goes, with `pools` and `lock` or the draft's own; None when config, lock or pools are missing."""
    checked, pools, lock = made.checked, pools or made.pools, lock or made.checked.lock
    if checked.config is None or lock is None or checked.entry is None or pools is None:
        return None
    return assemble(
        made.lab,
        checked.experiment.name,
        checked.config,
        lock,
        checked.entry,
        checked.hyperparams,
        pools,
        made.options,
        Origin(made.digest, made.git),
    )


def ask_admission(console: Console, made: Draft) -> DryRun | None:
    """What admission says to the JobSpec; its refusals join those found here, each once. None when there is no JobSpec to ask with.

    When only the pools are wrong, admission is asked about the rest with a pool that every console has; when the lock is, with the one
    that will mend it.
    """
    made.refusals = compare_catalogs(console, made.checked, made.refusals)
    spec = jobspec(made, made.pools or make_pools([CPU_PROFILE], None)[0], _mended_lock(made.checked))
    if spec is None:
        return None
    answer: DryRun
    try:
        answer = console.dry_run(spec)
        theirs = [to_refusal(item) for item in answer.get("refusals") or []]
    except RefusedError as error:  # not even the form of the JobSpec is right
        answer = {"admitted": False}
        theirs = error.refusals
    if made.pools is None:
        theirs = [refusal for refusal in theirs if not refusal.field.startswith("spec.resources")]
        answer["admitted"] = False
    made.refusals += [refusal for refusal in theirs if not _said(refusal, made.refusals)]
    return answer


def _mended_lock(checked: Checked) -> dict[str, Any] | None:
    """What `tp recipe lock` will write in place of a refused lock, about which the console could only say the same once more."""
    wrong = any(refusal.code in LOCK_CODES for refusal in checked.refusals)
    return renew_lock(checked.lock, checked.entry) if wrong and checked.lock and checked.entry else None


def _said(refusal: Refusal, before: list[Refusal]) -> bool:
    """Whether the same was found here already: both sides check the config with the same code, and forms with the same rules."""
    return any(
        refusal.code == other.code and (refusal.message == other.message or refusal.field == other.field != "")
        for other in before
    )


@contextmanager
def packed(made: Draft) -> Iterator[tuple[IO[bytes], int]]:
    """The package in a file without a name, and its size in bytes: nothing else can change it, and nothing is left of it after a crash."""
    assert made.plan is not None
    with tempfile.TemporaryFile() as file:
        made.digest = write_package(made.plan, file)
        yield file, file.tell()


def scan(made: Draft) -> None:
    """Write the package to nowhere, for its digest and for the secrets in its files."""
    if made.plan is None:
        return
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device, not a path of ours
        try:
            made.digest = write_package(made.plan, nowhere)
        except RefusedError as error:
            made.refusals += error.refusals


def send(console: Console, made: Draft, file: IO[bytes], size: int) -> Job:
    """Send what the console does not have yet, then the JobSpec."""
    bring(console, made, file, size, ask_admission)
    spec = jobspec(made)
    assert spec is not None
    return console.submit(spec, secrets.token_hex(16))


def bring[C: Console](console: C, made: Draft, file: IO[bytes], size: int, ask: Callable[[C, Draft], object]) -> None:
    """Send the package if the console does not have it. `ask` adds what the console says against it to the draft's refusals."""
    if console.has_package(made.digest):
        return
    ask(console, made)  # before the upload: it may be large, and the answer no
    if made.refusals:
        raise RefusedError(made.refusals)
    with _upload_progress(size) as progress:
        console.upload_package(made.digest, file, size, progress)


@contextmanager
def _upload_progress(size: int) -> Iterator[Any]:
    if size < 4_000_000 or not sys.stderr.isatty():
        yield None
        return
    from tuneplane.cli.progress import byte_bar

    with byte_bar(_("sending the package"), size) as advance:
        yield advance
