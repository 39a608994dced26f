"""Rounds of submits, cancels and SIGKILLs at random moments against one console, written down as they happen."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.chaos.bench import Bench, Submitted, Wanted, end_console
from tests.chaos.processes import RUNNER, STEP, SUPERVISOR, TRAINER, JobProcess
from tests.chaos.witness import Witness
from tests.e2e.harness import wait_until
from tests.services.process import ProcessId

CONSOLE, CONTAINER, DOCKERD = "console", "container", "dockerd"
DAEMON, CABLE, CURRENT, CLOCK = "daemon", "cable", "current", "clock"  # of a node
CONTROLLER, REST = "slurmctld", "slurmrestd"
NUMBER = "a number that Slurm gave twice"
TARGETS = {
    "process": ((CONSOLE, 3), (RUNNER, 3), (TRAINER, 3), (SUPERVISOR, 3)),
    "docker": ((CONSOLE, 3), (RUNNER, 2), (TRAINER, 3), (CONTAINER, 2)),
    "dockerd": ((CONSOLE, 3), (RUNNER, 2), (TRAINER, 3), (CONTAINER, 2), (DOCKERD, 3)),
    "slurm": ((CONSOLE, 3), (RUNNER, 1), (TRAINER, 2), (STEP, 1), (CONTROLLER, 4), (REST, 4)),
    "cluster": ((CONSOLE, 2), (RUNNER, 1), (TRAINER, 2), (DAEMON, 4), (CABLE, 4), (CURRENT, 1), (CLOCK, 1)),
}
ROUND_SECONDS = 2.0
IN_FLIGHT = 6  # more would only queue for the processor of a small machine
CALM_SECONDS = 300.0
AMBUSH_SECONDS = 1.0


@dataclass
class Storm:
    """`hits`: (run, attempt) -> kinds of its processes that were killed; `journal`: everything done, for a failure;
    `calm_seconds`: how long anything may take that has to come to an end by itself.
    """

    bench: Bench
    witness: Witness
    runtime: str  # a key of TARGETS
    seed: int
    hits: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    journal: list[str] = field(default_factory=list)
    calm_seconds: float = CALM_SECONDS

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._calls = ThreadPoolExecutor(8, thread_name_prefix="calls")
        self._lock = threading.Lock()

    def round(self, number: int) -> None:
        """One round; what was submitted may live on into the next ones. Reproducible but for what the machine decides."""
        rng = random.Random(f"{self.seed}/{self.runtime}/{number}")
        calls: list[Future[None]] = []
        for moment, act in sorted(self._plan(rng, number, calls), key=lambda item: item[0]):
            time.sleep(max(0.0, self._round_began(moment)))
            act()
        self._revive()
        for call in calls:
            call.result(timeout=self.calm_seconds)
        wait_until(
            "few enough runs are in flight", lambda: len(self.witness.unfinished()) <= IN_FLIGHT, self.calm_seconds
        )

    def calm(self) -> None:
        """Everything is up again and left alone until all has ended and been cleaned up."""
        self._revive()
        self._calls.shutdown(wait=True)
        known = {item.run for item in self.bench.submitted}
        wait_until("every run has ended", lambda: known <= self._settled(), self.calm_seconds)

    def hits_of(self, run: str, attempt: int, nodes: tuple[str, ...]) -> set[str]:
        """What of an attempt was hit that could end it. `nodes`: where it was placed."""
        return self.hits.get((run, attempt), set())

    def note(self, text: str) -> None:
        with self._lock:
            self.journal.append(f"{time.monotonic() - self._began:8.2f}  {text}")

    # --- one round ------------------------------------------------------------------------------------------------

    def _plan(
        self, rng: random.Random, number: int, calls: list[Future[None]]
    ) -> list[tuple[float, Callable[[], None]]]:
        self._zero = time.monotonic()
        self.note(f"--- round {number}")
        submits = [
            (rng.uniform(0, ROUND_SECONDS / 2), self._submitting(rng, f"{number}.{index}", calls))
            for index in range(rng.randint(2, 4))
        ]
        names, weights = zip(*TARGETS[self.runtime], strict=True)
        targets = rng.choices(names, weights, k=rng.randint(1, 3))
        return submits + [(rng.uniform(0.1, ROUND_SECONDS), self._hitting(rng, target)) for target in targets]

    def _round_began(self, moment: float) -> float:
        return self._zero + moment - time.monotonic()

    def _submitting(self, rng: random.Random, name: str, calls: list[Future[None]]) -> Callable[[], None]:
        wanted = self._wanted(rng)
        cancel_after = rng.choice((None, None, rng.uniform(0, 3.0)))
        key = f"chaos-{self.seed}-{self.runtime}-{name}"

        def call() -> None:
            made = self.bench.submit(key, wanted)
            self.note(f"submitted {name} as {made.run}: {wanted}, cancel after {cancel_after}")
            if cancel_after is not None:
                time.sleep(cancel_after)
                self._cancel(made)

        return lambda: calls.append(self._calls.submit(call))

    def _wanted(self, rng: random.Random) -> Wanted:
        return Wanted(rng.randint(20, 80), rng.uniform(0.5, 3.0), rng.choice((0, 0, 1)), rng.random() < 0.2)

    def _cancel(self, made: Submitted) -> None:
        made.cancel_asked = time.time()
        made.cancel = self.bench.api.cancel(made.run)
        self.note(f"cancelled {made.run}: the console says {made.cancel['phase']}, desired {made.cancel['desired']}")

    def _hitting(self, rng: random.Random, target: str) -> Callable[[], None]:
        pause, pick, fresh = rng.choice((0.0, rng.uniform(0, 1.5))), rng.random(), rng.random() < 0.4
        again_after = rng.choice((None, None, rng.uniform(0.1, 2.5)))
        if target == CONSOLE:
            return lambda: self._hit_console(pause, again_after)
        if target == DOCKERD:
            return lambda: self._hit_dockerd(pause)
        if target == CONTAINER:
            return lambda: self._hit_container(pick)
        return lambda: self._hit_process(target, pick, fresh=fresh)

    # --- hits -----------------------------------------------------------------------------------------------------

    def _hit_console(self, pause: float, again_after: float | None) -> None:
        self.note(f"SIGKILL console, start after {pause:.2f} s, again {again_after}")
        end_console(self.bench.console)
        time.sleep(pause)
        self.bench.console.spawn()
        if again_after is not None:
            time.sleep(again_after)
            end_console(self.bench.console)
            self.bench.console.spawn()

    def _hit_dockerd(self, pause: float) -> None:
        assert self.bench.daemon is not None
        self.note(f"SIGKILL dockerd, start after {pause:.2f} s")
        self.bench.daemon.kill()
        time.sleep(pause)
        self.bench.daemon.start()

    def _hit_process(self, kind: str, pick: float, *, fresh: bool) -> None:
        """Kill one that lives; `fresh`: wait a little for one to appear and kill it in its first moments."""
        found = [item for item in self.bench.processes() if item.kind == kind]
        if fresh:
            found = self._appearing(kind, {item.process for item in found})
        if not found:
            return self.note(f"no {kind} to kill")
        item = found[int(pick * len(found))]
        return self._note_hit(item.job, item.attempt, kind, done=item.kill())

    def _appearing(self, kind: str, known: set[ProcessId]) -> list[JobProcess]:
        deadline = time.monotonic() + AMBUSH_SECONDS
        found: list[JobProcess] = []
        while not found and time.monotonic() < deadline:
            time.sleep(0.01)
            found = [item for item in self.bench.processes() if item.kind == kind and item.process not in known]
        return found

    def _hit_container(self, pick: float) -> None:
        found = self.bench.containers()
        if not found:
            return self.note("no container to kill")
        identifier, job, attempt = found[int(pick * len(found))]
        return self._note_hit(job, attempt, CONTAINER, done=self.bench.kill_container(identifier))

    def _note_hit(self, job: str, attempt: int, kind: str, *, done: bool) -> None:
        """It counts only when it lived. Judged at the end, so later than the kill is early enough."""
        self.note(f"SIGKILL {kind} of {job}/{attempt}: {'done' if done else 'it had ended'}")
        if done:
            self.hits[job, attempt].add(kind)

    # --- calm -----------------------------------------------------------------------------------------------------

    def _revive(self) -> None:
        console = self.bench.console
        if console.process is None or console.process.poll() is not None:
            self.witness.faults.append(f"the console ended by itself; its log ends: {console.log()[-2000:]}")
            console.spawn()
        console.wait_ready()

    def _settled(self) -> set[str]:
        """Runs that have ended and hold nothing any more."""
        jobs = self.witness.look(lambda: self.bench.api.items("/jobs", limit=100))
        return {
            job["id"]
            for job in jobs
            if job["id"] not in self.witness.unfinished() and job["cleanup"] in ("none", "confirmed")
        }
