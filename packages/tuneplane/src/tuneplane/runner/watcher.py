"""Looks at the out dir while the trainer runs."""

from __future__ import annotations

import os
import threading
from time import monotonic, time
from typing import Any, Callable, Dict, List, Optional, Tuple

from tuneplane.runner import limits
from tuneplane.runner.artifacts import FileFacts, Hasher, checkpoint_problem, shown_path, walk
from tuneplane.runner.capsule import Capsule
from tuneplane.runner.checkpoints import find_checkpoints, step_of


class Watcher:
    """A thread of the lowest priority beside the trainer: digests of files that no longer change, checkpoints that became
    complete, checkpoints that are written where nothing survives."""

    def __init__(
        self,
        capsule: Capsule,
        hasher: Hasher,
        announced: Dict[str, None],
        work_dir: str,
        event: Callable[[str, Dict[str, Any]], None],
    ) -> None:
        self._capsule = capsule
        self._hasher = hasher
        self._announced = announced
        self._work_dir = work_dir
        self._event = event
        self._stop = threading.Event()
        self._sizes: Dict[str, Tuple[int, int, int]] = {}
        self._warned = False
        self._looked_outside = monotonic()
        self._thread = threading.Thread(target=self._run, name="tuneplane-watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        _lowest_priority()
        pause = limits.WATCH_SECONDS
        while not self._stop.wait(pause):
            begun = monotonic()
            try:
                stable = self._stable_files()
                self._announce_checkpoints()
                self._look_outside()
            except (OSError, ValueError):
                continue  # the out dir is out of reach for a moment; the next look is soon
            # On a slow file system looking must stay a small part of the time.
            pause = max(limits.WATCH_SECONDS, 50 * (monotonic() - begun))
            for facts in stable:
                if self._stop.is_set():
                    return
                self._hasher.hash(facts, self._stop.is_set, share=0.25)

    def _stable_files(self) -> List[FileFacts]:
        """Files without a digest that looked the same last time and are not fresh."""
        now = time()
        before, self._sizes = self._sizes, {}
        stable: List[FileFacts] = []
        for facts in walk(self._capsule.out_dir, self._stop.is_set):
            if self._hasher.known(facts) is not None:
                continue
            self._sizes[facts.path] = facts.identity
            if before.get(facts.path) == facts.identity and now - facts.changed > limits.STABLE_SECONDS:
                stable.append(facts)
        return stable

    def _announce_checkpoints(self) -> None:
        """A `checkpoint` event for each complete one that the trainer did not announce itself."""
        for path in find_checkpoints(self._capsule.out_dir, self._capsule.checkpoint_globs, limits.CHECKPOINTS):
            full = os.path.join(self._capsule.out_dir, path)
            if path in self._announced or time() - os.stat(full).st_mtime < limits.STABLE_SECONDS:
                continue
            if checkpoint_problem(self._capsule, path) is None:
                self._announced[path] = None
                self._event("checkpoint", {"path": shown_path(path), "step": step_of(path)})

    def _look_outside(self) -> None:
        if self._warned or monotonic() - self._looked_outside < limits.OUTSIDE_SECONDS:
            return
        self._looked_outside = monotonic()
        found = find_outside(self._work_dir)
        if found is not None:
            self._warned = True
            text = (
                f"a checkpoint is being written to {found}, which goes when the run ends; write below TUNEPLANE_OUT_DIR"
            )
            self._event("warning", {"code": "checkpoint-outside-out-dir", "text": text})


def find_outside(work_dir: str, most: int = limits.OUTSIDE_ENTRIES) -> Optional[str]:
    """A directory in the work dir that looks like a trainer's checkpoint. Looks at names only, at most `most` of them."""
    pending, seen = [work_dir], 0
    while pending:
        directory = pending.pop(0)
        try:
            entries = list(os.scandir(directory))
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if seen > most:
                return None
            if not entry.is_dir(follow_symlinks=False):
                continue
            name, _, number = entry.name.rpartition("-")
            if name in ("checkpoint", "global_step", "step") and number.isdigit():
                return entry.path
            if entry.name not in ("tuneplane_lib", "report", "volumes", "__pycache__", ".git"):
                pending.append(entry.path)
    return None


def _lowest_priority() -> None:
    """Only this thread: on Linux priority belongs to threads."""
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
    except (OSError, AttributeError):
        return  # not allowed here: the thread's share of the time is small anyway
