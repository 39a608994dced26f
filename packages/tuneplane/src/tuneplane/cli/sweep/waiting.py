"""Wait for the end of a sweep, and say how it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable

from tuneplane.cli.exits import FAILED, OK
from tuneplane.cli.job.follow import Patience
from tuneplane.cli.sweep.text import OVER, head, progress, sorted_trials, state_word, trial_table
from tuneplane.cli.text import note, write, write_json
from tuneplane.client.sweeps import SweepConsole
from tuneplane.i18n import _

PAUSE_SECONDS = 2.0


def wait_for(console: SweepConsole, sweep: str, *, as_json: bool, sleep: Callable[[float], None] = time.sleep) -> int:
    """0 when it is done and a trial succeeded, else 1. A console that is away is waited for, for a bounded time."""
    patience, said = Patience(), ""
    try:
        while True:
            found = patience.call(lambda: console.sweep(sweep))
            line = f"{state_word(found['state'])}: {progress(found)}"
            if line != said and not as_json:
                note(line)
            said = line
            if found["state"] in OVER:
                break
            sleep(PAUSE_SECONDS)
    except KeyboardInterrupt:
        note(_("the sweep goes on: tp sweep show {id}; to end it: tp sweep cancel {id}").format(id=sweep))
        raise
    if as_json:
        write_json(found)
    else:
        write(f"{head(found)}\n{trial_table(found, sorted_trials(found))}")
    return OK if found["state"] == "done" and found["counts"].get("succeeded") else FAILED
