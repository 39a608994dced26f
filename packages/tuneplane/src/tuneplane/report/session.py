"""The functions a training script calls. State is one recorder per process, made on first use and anew after a fork."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from time import time
from typing import Any, Dict, Iterable, List, Mapping, Optional

from tuneplane.contract.words import ENV_REPORT_DIR
from tuneplane.report.lines import event_line, sample_line
from tuneplane.report.ranks import detect_rank
from tuneplane.report.values import PLAIN_TYPES, fit_sample, flatten, to_json_value, to_number, without_secrets
from tuneplane.report.writer import MAX_QUEUED, Recorder, say

SAMPLE_KINDS = ("completion", "preference", "conversation")
_MAX_SAMPLES_PER_CALL = 1000
_FINISH_SECONDS = 1.8
_FLUSH_SECONDS = 5.0  # a checkpoint has just been written, which takes longer

_recorder: Optional[Recorder] = None
_off = False  # outside a job: said once, then nothing is done
_make_lock = threading.Lock()
_all_plain = PLAIN_TYPES.issuperset
_STEP_TYPES = frozenset((int, type(None)))


def init(config: Optional[Mapping[str, Any]] = None, *, rank: Optional[int] = None) -> None:
    """Start reporting; optional, since the first `log` does it too.

    `config`: hyperparameters to show beside the run; entries whose name says that they are secret are left out.
    `rank`: global rank of this process; found from the launcher's environment when left out. Only rank 0's metrics are the
    run's metrics; other ranks' go to their own series.
    """
    try:
        recorder = _get(rank)
        if recorder is not None and config is not None and recorder.rank == 0:
            log_event("hyperparams", without_secrets(to_json_value(dict(config))))
    except Exception as error:  # noqa: BLE001 - reporting must never end a training run
        _complain("init", error)


def log(metrics: Mapping[str, Any], step: Optional[int] = None, *, epoch: Optional[float] = None) -> None:
    """Record numbers under their names at `step` (the last step plus one when left out). Costs microseconds, never raises.

    Nested mappings are joined with `/`. Tensors and array scalars are read at once (a GPU tensor waits for its value, as
    `.item()` does). NaN and infinities are values. Anything else that is no number is left out, with one warning.
    """
    try:
        recorder = _recorder
        if recorder is None:
            recorder = _get(None)
            if recorder is None:
                return
        queue = recorder.queue
        if len(queue) >= MAX_QUEUED:
            recorder.dropped += 1
            return
        if (
            type(metrics) is dict
            and type(step) in _STEP_TYPES
            and epoch is None
            and _all_plain(map(type, metrics.values()))
        ):
            entry: Any = (metrics.copy(), step, time(), None)
            queue.append(entry)
        else:
            queue.append(_careful_entry(recorder, metrics, step, epoch))
        if not recorder.wake.is_set():
            recorder.start()
            recorder.wake.set()
    except Exception as error:  # noqa: BLE001 - reporting must never end a training run
        _complain("log", error)


def log_samples(samples: Iterable[Mapping[str, Any]], step: Optional[int] = None, kind: str = "completion") -> None:
    """Show samples to people. `kind` decides the keys of each sample:

    completion: prompt, completion, reward (number), rewards {name: number}; preference: prompt, chosen, rejected;
    conversation: messages [{role, content}]. Long texts are cut; at most 1,000 samples a call, the rest is left out.
    """
    try:
        recorder = _get(None)
        if recorder is None:
            return
        if kind not in SAMPLE_KINDS:
            recorder.warn(
                "sample-kind",
                f"sample kind {kind!r} is none of {', '.join(SAMPLE_KINDS)}; these samples are not recorded",
            )
            return
        now, at_step = round(time(), 3), _step_of(recorder.latest_step() if step is None else step)
        encoded: List[Dict[str, Any]] = []
        for sample in samples:
            if len(encoded) == _MAX_SAMPLES_PER_CALL:
                recorder.warn("sample-count", f"log_samples records at most {_MAX_SAMPLES_PER_CALL} samples a call")
                break
            data = fit_sample(to_json_value(dict(sample)))
            encoded.append({"kind": kind, "step": 0 if at_step is None else at_step, "time": now, "data": data})
        for sample_number in range(0, len(encoded), 8):
            _put_line(recorder, sample_line(recorder.rank, encoded[sample_number : sample_number + 8]))
    except Exception as error:  # noqa: BLE001 - reporting must never end a training run
        _complain("log_samples", error)


def log_event(event: str, data: Mapping[str, Any]) -> None:
    """Record an event (`hyperparams`, `environment`, `checkpoint` {path, step}, `warning` {code, text},
    `phase` {name, max_minutes}: no stall for so long); JSON values only."""
    try:
        recorder = _get(None)
        if recorder is not None:
            _put_line(recorder, event_line(recorder.rank, str(event)[:64], time(), to_json_value(dict(data))))
    except Exception as error:  # noqa: BLE001 - reporting must never end a training run
        _complain("log_event", error)


def flush() -> None:
    """Write what is queued; returns within five seconds, mostly at once. For the moments after which a killed process must not miss anything."""
    try:
        recorder = _recorder
        if recorder is not None:
            recorder.flush(_FLUSH_SECONDS)
    except Exception as error:  # noqa: BLE001 - reporting must never end a training run
        _complain("flush", error)


def finish() -> None:
    """Write what is still queued; returns within two seconds. A later `log` starts again."""
    try:
        recorder = _recorder
        if recorder is not None and not recorder.stop(_FINISH_SECONDS):
            recorder.warn(
                "finish", "the report directory did not take everything in time; the last points may be missing"
            )
    except Exception as error:  # noqa: BLE001 - reporting must never end a training run
        _complain("finish", error)


def _get(rank: Optional[int]) -> Optional[Recorder]:
    global _recorder, _off
    if _recorder is not None or _off:
        return _recorder
    with _make_lock:
        if _recorder is not None or _off:
            return _recorder
        directory = os.environ.get(ENV_REPORT_DIR, "")
        if not directory:
            _off = True
            say("this script does not run inside a TunePlane job; nothing is recorded")
            return None
        recorder = Recorder(directory, detect_rank(os.environ) if rank is None else max(0, int(rank)))
        _flush_at_exit(recorder)
        _recorder = recorder
    return _recorder


def _flush_at_exit(recorder: Recorder) -> None:
    """Children of `multiprocessing` leave through os._exit, which runs its finalizers but not atexit."""
    atexit.register(finish)
    util = sys.modules.get("multiprocessing.util")
    if util is not None and os.getpid() != _first_pid:
        util.Finalize(recorder, finish, exitpriority=100)


def _careful_entry(recorder: Recorder, metrics: Mapping[str, Any], step: Any, epoch: Any) -> Any:
    numbers = flatten(metrics, recorder.warn)
    number = None if epoch is None else to_number(epoch)
    finite = number is not None and number - number == 0
    return (numbers, _step_of(step), time(), float(number) if finite and number is not None else None)


def _step_of(step: Any) -> Optional[int]:
    number = None if step is None else to_number(step)
    return int(number) if number is not None and number - number == 0 else None


def _put_line(recorder: Recorder, line: bytes) -> None:
    if len(recorder.lines) >= MAX_QUEUED // 64:
        recorder.dropped += 1
        return
    recorder.lines.append(line)
    if not recorder.wake.is_set():
        recorder.start()
        recorder.wake.set()


def _complain(where: str, error: Exception) -> None:
    recorder = _recorder
    if recorder is not None:
        recorder.warn(where, f"{where}() failed and was ignored: {type(error).__name__}: {error}")


def _after_fork_in_child() -> None:
    """The writer thread does not exist in the child, and its locks may be held for ever: the child starts anew."""
    global _recorder, _make_lock
    _make_lock = threading.Lock()
    _recorder = None


_first_pid = os.getpid()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
