"""`python runner.pex <capsule dir>`: one machine of one attempt, from the capsule to the outcome (design §3.5). Started a
second time it starts nothing (claim.py).

Exit code: the trainer's; 128 + signal when it was killed; 78 when it could not be started; 143 when the run was stopped before that.
"""

from __future__ import annotations

import os
import sys
from time import monotonic, time
from typing import Dict, List, Mapping, Optional, Sequence

from tuneplane import adapters
from tuneplane.adapters import LogHint
from tuneplane.contract.words import RUNNER_EXIT_PLATFORM
from tuneplane.runner import limits
from tuneplane.runner.artifacts import Hasher, artifacts_path, build_index
from tuneplane.runner.capsule import Capsule, read_capsule, verify_runner
from tuneplane.runner.claim import Claim, take_claim
from tuneplane.runner.environment import REPORT_DIR, build_environment
from tuneplane.runner.failures import PREFIX, RUNNER_FAILED, StartError, storage_error
from tuneplane.runner.files import write_json
from tuneplane.runner.machine import describe_machine, machine_rank
from tuneplane.runner.metric_names import MetricNames
from tuneplane.runner.outcome import STOPPED_BEFORE_START, outcome_of, outcome_path
from tuneplane.runner.process_tree import become_subreaper
from tuneplane.runner.recorder import to_stderr
from tuneplane.runner.report_files import ReportFiles, Reports
from tuneplane.runner.report_lines import ReportLines
from tuneplane.runner.reporting import Reporting, running_archive
from tuneplane.runner.second_start import follow_earlier
from tuneplane.runner.stopping import StopRequest
from tuneplane.runner.tails.framework_logs import FrameworkLogs
from tuneplane.runner.tails.rank_logs import RankLogs
from tuneplane.runner.trainer import Ending, Trainer, command_for_people
from tuneplane.runner.watcher import Watcher
from tuneplane.runner.workspace import fill_work_dir, make_work_dir, remove_work_dir, write_command_files


def main(argv: Optional[List[str]] = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) != 1:
        to_stderr("tuneplane: usage: python runner.pex <capsule dir>\n")
        return RUNNER_EXIT_PLATFORM
    stop = StopRequest()
    stop.listen()
    environ = dict(os.environ)
    try:
        capsule = read_capsule(arguments[0], environ)
        rank = machine_rank(environ)
        os.makedirs(capsule.out_dir, mode=0o755, exist_ok=True)
        claim = take_claim(capsule.spool_dir, rank)
        if not claim.mine:
            return follow_earlier(claim, capsule, rank, stop)
        reporting = Reporting(capsule, rank, environ, stop.cancel)
    except StartError as error:
        to_stderr(f"{PREFIX}{error.code}: {error.detail}\n")
        return RUNNER_EXIT_PLATFORM
    except OSError as error:
        failure = storage_error("the storage root cannot be written", error)
        to_stderr(f"{PREFIX}{failure.code}: {failure.detail}\n")
        return RUNNER_EXIT_PLATFORM
    return Runner(capsule, rank, environ, claim, reporting, stop).run()


class Runner:
    """One attempt on one machine. `run` reads as the life of a job; everything else is a step of it."""

    def __init__(
        self,
        capsule: Capsule,
        rank: int,
        environ: Mapping[str, str],
        claim: Claim,
        reporting: Reporting,
        stop: StopRequest,
    ) -> None:
        self._capsule = capsule
        self._rank = rank
        self._environ = environ
        self._claim = claim
        self._reporting = reporting
        self._recorder = reporting.recorder
        self._stop = stop
        self._hasher = Hasher(capsule.out_dir)
        self._names = MetricNames(capsule.aliases)
        self._reports = ReportLines(self._names, rank, capsule.out_dir)
        self._started_at: Optional[float] = None
        self._work_dir = ""

    def run(self) -> int:
        self._reporting.start()
        ending: Optional[Ending] = None
        failure: Optional[StartError] = None
        try:
            trainer = self._start()
            if trainer is not None:
                ending = self._supervise(trainer)
        except StartError as error:
            failure = error
            self._recorder.say(f"the run cannot start: {error.code}: {error.detail}")
        except Exception as error:  # noqa: BLE001 - whatever it is, the outcome must be written
            failure = StartError(RUNNER_FAILED, f"the runner failed: {type(error).__name__}: {error}")
            self._recorder.say(failure.detail)
        try:
            return self._conclude(ending, failure)
        finally:
            if self._work_dir:
                remove_work_dir(self._work_dir)

    def _start(self) -> Optional[Trainer]:
        """None when the run was stopped before there was anything to start."""
        capsule = self._capsule
        verify_runner(capsule, running_archive(sys.argv[0]))
        self._work_dir = make_work_dir()
        fill_work_dir(capsule, self._work_dir, self._recorder.warn)
        machine = describe_machine(capsule, self._environ, self._work_dir)
        try:
            command = adapters.compile(capsule.data, machine)
        except adapters.AdapterError as error:
            raise StartError(error.code, error.detail) from error
        cwd = write_command_files(capsule, command, self._work_dir)
        environment = build_environment(capsule, machine, self._environ, command.env)
        if self._told_to_stop():
            return None
        become_subreaper()
        self._recorder.follow(Reports(ReportFiles(os.path.join(self._work_dir, REPORT_DIR)), self._reports))
        if self._rank == 0:
            self._follow_logs(command.log_hints)
        trainer = Trainer(command.argv, cwd, environment, self._reporting.output)
        self._started_at = time()
        self._reporting.state("running")
        self._recorder.event("trainer-started", {"pid": trainer.pid, "command": command_for_people(command.argv)})
        return trainer

    def _follow_logs(self, hints: Sequence[LogHint]) -> None:
        """Frameworks log on one process of the job, and the out dir is the same on all machines: machine 0 follows for all."""
        out_dir, redactor = self._capsule.out_dir, self._reporting.redactor
        logs = FrameworkLogs([hint for hint in hints if hint.kind != "ranks"], out_dir, self._reports)
        self._recorder.listen(logs.feed)
        self._recorder.follow(logs)
        for hint in hints:
            if hint.kind == "ranks" and self._capsule.machine_count == 1:
                self._recorder.follow(RankLogs(os.path.join(out_dir, hint.path), redactor))

    def _supervise(self, trainer: Trainer) -> Ending:
        watcher = Watcher(self._capsule, self._hasher, self._reports.checkpoints, self._work_dir, self._recorder.event)
        if self._rank == 0:
            watcher.start()
        trainer.watch(self._stop.fd)
        kill_at: Optional[float] = None
        killed = False
        while not trainer.ended():
            if self._told_to_stop() and kill_at is None:
                kill_at = monotonic() + self._capsule.grace
                self._recorder.event("signal", {"signal": self._stop.cause})
                self._recorder.say(f"{self._stop.cause}: the trainer has {self._capsule.grace:g} s to end")
                trainer.terminate()
            if kill_at is not None and monotonic() >= kill_at:
                if not killed:
                    self._recorder.say("the trainer did not end in time and is killed")
                killed = True
                trainer.kill()
                kill_at = monotonic() + limits.TICK_SECONDS  # again, for what it started meanwhile
            left = limits.TICK_SECONDS if kill_at is None else kill_at - monotonic()
            trainer.pump(max(0.01, min(limits.TICK_SECONDS, left)))
        ending = trainer.wind_up()
        if self._rank == 0:
            watcher.stop()
        self._recorder.event("trainer-exited", _without_none({"exit_code": ending.exit_code, "signal": ending.signal}))
        if ending.left_behind:
            self._recorder.warn(
                "processes-left", f"the trainer left {ending.left_behind} processes behind; they were ended"
            )
        if ending.held_open:
            self._recorder.warn(
                "output-held-open",
                f"something outside of the run still holds {' and '.join(ending.held_open)} of the trainer open; "
                "what it writes there from now on is not recorded",
            )
        return ending

    def _told_to_stop(self) -> bool:
        """By a signal, by the console, or through a later start of this attempt."""
        if self._stop.cause is None and self._claim.told_to_stop():
            self._stop.passed_on()
        return self._stop.cause is not None

    def _conclude(self, ending: Optional[Ending], failure: Optional[StartError]) -> int:
        """Records first, on disk; then the console, for as long as the drain may take."""
        self._reporting.state("draining")
        if self._names.refused:
            self._recorder.warn(
                "metric-names",
                f"{self._names.refused} metric names are too long, unprintable or beyond the limit; they are left out",
            )
        settled = self._recorder.settle(limits.SETTLE_SECONDS)
        if not settled:
            self._recorder.say("the spool's disk is slow; the last output may be missing")
        reason = failure.code if failure is not None else None
        detail = failure.detail if failure is not None else self._detail(ending)
        stopped = self._stop.cause is not None and failure is None
        outcome = self._reporting.redactor.json(
            outcome_of(self._capsule, self._rank, ending, stopped, reason, detail, self._started_at)
        )
        outcome["log_tail"] = self._reporting.output.tail()
        outcome["lost"] = self._reporting.lost()
        if self._rank == 0:
            self._write(artifacts_path(self._capsule.out_dir), self._index())
        path = outcome_path(self._capsule.out_dir, self._rank)
        # Being told to stop once more means now: the engine sends what is left. Counted from before the outcome is there
        # to be seen, so that a signal from whoever has just seen it is one more.
        times = self._stop.times
        self._write(path, outcome)
        self._recorder.event("outcome", outcome)
        drain_seconds = float(self._capsule.ingest.get("drain_seconds", 20.0))
        if self._reporting.drain(drain_seconds, lambda: self._stop.times > times):
            self._write(path, dict(outcome, spool_drained=True))
        if ending is not None:
            return ending.shell_code
        return STOPPED_BEFORE_START if stopped else RUNNER_EXIT_PLATFORM

    def _index(self) -> Dict[str, object]:
        return build_index(self._capsule, self._hasher, limits.INDEX_SECONDS, limits.HASH_SECONDS)

    def _detail(self, ending: Optional[Ending]) -> str:
        if ending is None:
            return f"stopped by {self._stop.cause} before the trainer was started"
        how = (
            f"was killed by signal {ending.signal}" if ending.signal is not None else f"exited with {ending.exit_code}"
        )
        return f"the trainer {how}" + (f" after {self._stop.cause}" if self._stop.cause is not None else "")

    def _write(self, path: str, value: Dict[str, object]) -> None:
        try:
            write_json(path, value)
        except OSError as error:
            self._recorder.say(f"{path} cannot be written: {error}")


def _without_none(values: Mapping[str, object]) -> Dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}
