"""Watches every run through the API for the whole storm and writes down what may never be seen."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from tests.chaos.api import Api, NoAnswerError

TERMINAL = ("succeeded", "failed", "cancelled", "lost")
EVERY_SECONDS = 0.3


class Witness:
    """`faults`: what was seen that may not be; `history`: run -> its (attempt, phase, desired) as they were first seen."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._over = threading.Event()
        self._looking = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="witness", daemon=True)
        self.looks = 0
        self.faults: list[str] = []
        self.history: dict[str, list[tuple[int, str, str]]] = defaultdict(list)

    def __enter__(self) -> Witness:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._over.set()
        self._thread.join(90)

    def unfinished(self) -> list[str]:
        """Runs whose last known phase is not terminal."""
        return [run for run, seen in list(self.history.items()) if seen[-1][1] not in TERMINAL]

    def look(self, ask: Callable[[], Iterable[dict[str, Any]]]) -> list[dict[str, Any]]:
        """What `ask` tells of the runs, seen. One look at a time: of two at once the older answer may be read last."""
        with self._looking:
            jobs = list(ask())
            for job in jobs:
                self.see(job)
            return jobs

    def see(self, job: dict[str, Any]) -> None:
        seen, now = self.history[job["id"]], (job["attempt"], job["phase"], job["desired"])
        if seen and seen[-1] != now:
            self._judge(job["id"], seen[-1], now)
        if not seen or seen[-1] != now:
            seen.append(now)

    def _judge(self, run: str, before: tuple[int, str, str], now: tuple[int, str, str]) -> None:
        if before[1] in TERMINAL:
            self.faults.append(f"{run}: terminal as {before}, then {now}")
        if before[2] == "cancel" and now[2] == "run":
            self.faults.append(f"{run}: its cancel was lost: {before}, then {now}")
        if now[0] < before[0] or (before[2] == "cancel" and now[0] > before[0]):
            self.faults.append(f"{run}: a wrong attempt: {before}, then {now}")

    def _watch(self) -> None:
        while not self._over.is_set():
            try:
                self.look(lambda: self._api.try_get("/jobs", limit=100)["items"])
                self.looks += 1
            except NoAnswerError:
                pass  # killed; what it says when it is back is what counts
            except Exception as error:  # noqa: BLE001 - reported with the others at the end
                self.faults.append(f"the list of runs: {error!r}")
            self._over.wait(EVERY_SECONDS)
