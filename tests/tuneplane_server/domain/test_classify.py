"""From a log to the first cause: what one rank's failure makes the others say never hides it."""

from __future__ import annotations

import signal
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuneplane_server.domain.reason_lines import (
    KILLED_RANK,
    LAUNCHER,
    LINES,
    LOST_PEER_ON_RANK_1,
    METRICS,
    OUT_OF_MEMORY_ON_RANK_0,
    TIME_OUT_ON_RANK_3,
)
from tuneplane_server.domain.classify import Exit, classify
from tuneplane_server.domain.evidence import MAX_CHARS, QUOTE_CHARS, quote, read_log
from tuneplane_server.domain.phases import Phase, Reason, StopCause, Verdict
from tuneplane_server.domain.reasons import REASONS, Weight

CONSEQUENCES = (TIME_OUT_ON_RANK_3, LOST_PEER_ON_RANK_1, LAUNCHER)
CAUSES = {
    "gpu-out-of-memory": OUT_OF_MEMORY_ON_RANK_0,
    "disk-full": "[rank2]: OSError: [Errno 28] No space left on device\n",
    "module-missing": "[rank0]: ModuleNotFoundError: No module named 'flash_attn'\n",
    "data-columns-wrong": "[rank0]: KeyError: 'chosen'\n",
    "gpu-failed": "[rank1]: torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered\n",
    "out-of-memory": "RuntimeError: DataLoader worker (pid 21067) is killed by signal: Killed.\n",
    "file-missing": "[rank0]: FileNotFoundError: [Errno 2] No such file or directory: 'prompts/system.txt'\n",
}


def failed(log: str, exit_code: int | None = 1, number: int | None = None, end: Exit = Exit(), **more: Any) -> Reason:
    """The reason of an attempt whose trainer ended so, with this at the end of its output."""
    outcome = {"result": "failed", "exit_code": exit_code, "signal": number, "log_tail": log} | more
    verdict = classify(end, outcome, None)
    assert (verdict.phase, verdict.from_outcome) == (Phase.FAILED, True)
    assert verdict.reason is not None
    return verdict.reason


def code(log: str, **how: Any) -> str:
    return failed(log, **how).code


# --- the first cause wins over what it causes -------------------------------------------------------------------------


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("noise", list(permutations(CONSEQUENCES, 2)), ids=lambda _: "")
def test_the_cause_on_one_rank_wins_over_what_the_others_say_before_and_after(
    cause: str, noise: tuple[str, str]
) -> None:
    assert code(noise[0] + CAUSES[cause] + noise[1]) == cause
    assert code(METRICS * 3 + CAUSES[cause] + noise[0] + noise[1]) == cause


@given(st.sampled_from(sorted(CAUSES)), st.lists(st.sampled_from(CONSEQUENCES), max_size=5), st.randoms())
def test_the_cause_wins_wherever_it_stands(cause: str, noise: list[str], random: Any) -> None:
    blocks = [CAUSES[cause], *noise]
    random.shuffle(blocks)
    assert code("".join(blocks)) == cause


def test_the_cause_is_quoted_with_its_own_line() -> None:
    reason = failed(OUT_OF_MEMORY_ON_RANK_0 + TIME_OUT_ON_RANK_3 + LAUNCHER)
    assert reason.data["detail"].startswith("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 324.00 MiB")
    assert reason.data["exit_code"] == 1


def test_a_time_out_alone_is_one_though_the_process_then_aborts_itself() -> None:
    assert code(TIME_OUT_ON_RANK_3 + LAUNCHER) == "communication-timeout"
    assert code(TIME_OUT_ON_RANK_3, exit_code=None, number=signal.SIGABRT) == "communication-timeout"


def test_a_lost_peer_alone_is_one() -> None:
    assert code(LOST_PEER_ON_RANK_1 + LAUNCHER) == "rank-lost"
    remote = LOST_PEER_ON_RANK_1[LOST_PEER_ON_RANK_1.index("[rank1]: ncclRemoteError") :]
    assert code(remote + LAUNCHER) == "rank-lost"


def test_a_rank_that_was_killed_without_a_word_wins_over_those_that_missed_it() -> None:
    reason = failed(LOST_PEER_ON_RANK_1 + KILLED_RANK)
    assert (reason.code, reason.data["detail"]) == ("killed", "exitcode  : -9 (pid: 1670)")


def test_memory_that_nccl_could_not_get_is_the_gpus() -> None:
    said = "[rank1]: ncclUnhandledCudaError: Call to CUDA function failed.\n[rank1]: Last error:\n[rank1]: Cuda failure 2 'out of memory'\n"
    assert code(TIME_OUT_ON_RANK_3 + said + LAUNCHER) == "gpu-out-of-memory"


def test_an_exception_the_table_does_not_know_wins_over_the_consequences_and_is_quoted() -> None:
    own = '[rank0]: Traceback (most recent call last):\n[rank0]:   File "train.py", line 3\n[rank0]: my.lab.BadReward: no reward for row 7\n'
    for log in (own + TIME_OUT_ON_RANK_3 + LAUNCHER, LOST_PEER_ON_RANK_1 + own + LAUNCHER):
        reason = failed(log)
        assert reason == Reason("trainer-failed", {"exit_code": 1, "detail": "my.lab.BadReward: no reward for row 7"})


def test_a_launcher_that_only_passes_a_failure_on_is_no_cause() -> None:
    assert failed(LAUNCHER) == Reason("trainer-failed", {"exit_code": 1})


def test_the_more_particular_of_two_exceptions_of_one_failure_wins() -> None:
    log = chain(
        "FileNotFoundError: [Errno 2] No such file: 'x'", "datasets.data_files.EmptyDatasetError: no data files"
    )
    assert code(log) == "dataset-missing"


def test_of_equals_the_first_wins() -> None:
    log = chain(
        "pyarrow.lib.ArrowInvalid: JSON parse error", "ValueError: Some keys are not used by the HfArgumentParser: []"
    )
    assert code(log) == "data-unreadable"


# --- what a process outlived is no cause ------------------------------------------------------------------------------


def traceback(exception: str) -> str:
    return f'Traceback (most recent call last):\n  File "train.py", line 9, in main\n    raise it\n{exception}\n'


def chain(*exceptions: str) -> str:
    link = "\nThe above exception was the direct cause of the following exception:\n\n"
    return link.join(traceback(exception) for exception in exceptions)


def test_an_exception_that_was_caught_and_printed_is_no_cause() -> None:
    caught = traceback("ModuleNotFoundError: No module named 'wandb'")
    assert code(caught + "going on without wandb\n" + traceback("KeyError: 'chosen'")) == "data-columns-wrong"
    assert failed(caught + traceback("ValueError: odd")).data["detail"] == "ValueError: odd"


def test_what_stands_before_the_last_metric_counts_only_when_nothing_else_does() -> None:
    early = traceback("ModuleNotFoundError: No module named 'wandb'") + METRICS
    assert code(early, exit_code=None, number=signal.SIGKILL) == "killed"
    assert code(early + traceback("ValueError: odd")) == "trainer-failed"
    assert code("No space left on device\n" + METRICS + traceback("KeyError: 'chosen'")) == "data-columns-wrong"
    assert code("No space left on device\n" + METRICS) == "disk-full"
    assert code("No space left on device\n" + METRICS + "No space left on device\n") == "disk-full"
    assert code(CAUSES["gpu-out-of-memory"] + METRICS + TIME_OUT_ON_RANK_3) == "gpu-out-of-memory"


def test_an_exception_of_the_garbage_collector_is_none() -> None:
    log = "Exception ignored in: <function Pool.__del__ at 0x7f>\n" + traceback("FileNotFoundError: [Errno 2] gone")
    assert failed(log) == Reason("trainer-failed", {"exit_code": 1})
    assert code(traceback("KeyError: 'chosen'") + log) == "data-columns-wrong"


def test_what_a_traceback_quotes_of_the_source_is_no_sign() -> None:
    log = 'Traceback (most recent call last):\n  File "train.py", line 9\n    raise Odd("No space left on device")\n    ^^^^\n\nOdd: what\n'
    assert failed(log) == Reason("trainer-failed", {"exit_code": 1, "detail": "Odd: what"})


# --- shapes of output -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "[rank3]: ",
        "[default3]: ",
        "(TaskRunner pid=812) ",
        "(WorkerDict pid=9, ip=10.0.0.2) ",
        "[1,3]<stderr>:",
        "3: ",
    ],
)
def test_launchers_put_the_rank_before_a_line_in_their_ways(prefix: str) -> None:
    log = "".join(prefix + line + "\n" for line in traceback("KeyError: 'chosen'").splitlines())
    assert failed(log).data["detail"] == "KeyError: 'chosen'"


def test_a_worker_s_own_exception_inside_its_parent_s_is_found() -> None:
    """As PyTorch's torch/_utils.py ExceptionWrapper prints it."""
    log = (
        traceback("KeyError: Caught KeyError in DataLoader worker process 0.")
        + "Original "
        + traceback("KeyError: 'prompt'")
    )
    assert code(log) == "data-columns-wrong"


def test_a_rich_traceback_is_read() -> None:
    log = "╭───── Traceback (most recent call last) ─────╮\n│ train.py:3 in <module>  │\n│ ❱ 3 import x  │\n╰────╯\nModuleNotFoundError: No module named 'x'\n"
    assert failed(log) == Reason(
        "module-missing", {"exit_code": 1, "module": "x", "detail": "ModuleNotFoundError: No module named 'x'"}
    )


def test_a_progress_bar_before_and_after_hides_nothing() -> None:
    """tqdm leaves its line unfinished, and prints it again when the interpreter ends."""
    log = f"\r  0%|   | 0/2 [00:00<?, ?it/s]\r 50%|█  | 1/2 [00:00<00:00]{traceback('FloatingPointError: step 1')}\r 50%|█  | 1/2\n"
    assert code(log) == "loss-not-finite"


def test_colours_and_control_characters_hide_nothing_and_are_not_quoted() -> None:
    log = "\x1b[31;1mOSError\x1b[0m: [Errno 28] \x1b]8;;file:///x\x07No space\x1b]8;;\x1b\\ left on device\x07\x00\u202e\n"
    assert failed(log).data["detail"] == "OSError: [Errno 28] No space left on device\ufffd\ufffd\ufffd"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "OSError: https://ann:s3cr3t@host/x: No space left on device",
            "OSError: https://***@host/x: No space left on device",
        ),
        ("401 for hf_" + "aB3" * 12, "401 for ***"),
        ("curl -H 'Authorization: Bearer abcdef0123456789'", "curl -H 'Authorization: Bearer ***'"),
        ("x" * 600, "x" * 499 + "…"),
        ("  indented  ", "indented"),
    ],
)
def test_a_quoted_line_holds_no_secret_and_is_short(line: str, shown: str) -> None:
    assert quote(line) == shown
    assert len(quote(line)) <= QUOTE_CHARS


def test_only_the_end_of_a_long_log_is_read() -> None:
    filler = "step\n" * (MAX_CHARS // 5)
    assert read_log("OSError: [Errno 28] No space left on device\n" + filler) == []
    assert read_log(filler + "No space left on device")[0].code == "disk-full"


FRAGMENTS = st.sampled_from(
    [line for sources in LINES.values() for lines in sources.values() for line in lines]
    + [
        "Traceback (most recent call last):",
        '  File "x", line 1',
        "Exception ignored in: x",
        METRICS,
        "\r",
        "\x1b[",
        "[rank0]: ",
    ]
    + [
        "During handling of the above exception, another exception occurred:",
        "Original Traceback (most recent call last):",
    ]
)
ENDS = st.builds(
    Exit,
    st.booleans(),
    st.none() | st.integers(-300, 300),
    st.none() | st.integers(-5, 80),
    st.booleans(),
    st.none() | st.sampled_from(sorted(REASONS)) | st.text(),
    st.text(),
)
OUTCOMES = st.none() | st.fixed_dictionaries(
    {"result": st.sampled_from(["succeeded", "failed", "cancelled"])},
    optional={
        "exit_code": st.none() | st.integers(-300, 300),
        "signal": st.none() | st.integers(-5, 80),
        "reason": st.none() | st.sampled_from(sorted(REASONS)) | st.text(),
        "detail": st.text(),
        "log_tail": st.lists(FRAGMENTS | st.text(), max_size=20).map("\n".join),
    },
)


@settings(max_examples=300)
@given(
    ENDS, OUTCOMES, st.none() | st.sampled_from(StopCause), st.lists(FRAGMENTS | st.text(), max_size=20).map("\n".join)
)
def test_any_evidence_gives_a_verdict_that_can_be_shown(
    end: Exit, outcome: dict[str, Any] | None, cause: StopCause | None, log: str
) -> None:
    verdict = classify(end, outcome, cause, log)
    assert (verdict.phase is Phase.SUCCEEDED) == (outcome is not None and outcome["result"] == "succeeded")
    if verdict.reason is not None:
        assert verdict.reason.code in REASONS
        own = (outcome or {}).get("detail", "")
        detail = verdict.reason.data.get("detail", "")
        assert detail == own or len(detail) <= QUOTE_CHARS
        detail.encode()


@given(st.binary(max_size=3000))
def test_any_bytes_can_be_read(data: bytes) -> None:
    for text in (data.decode("utf-8", "replace"), data.decode("latin-1"), data.decode("utf-8", "surrogateescape")):
        for found in read_log(text):
            assert found.code in REASONS
            found.quote.encode()


# --- how it ended, when the log says nothing --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (signal.SIGKILL, "killed"),
        (signal.SIGSEGV, "segmentation-fault"),
        (signal.SIGBUS, "bus-error"),
        (signal.SIGTERM, "interrupted"),
        (signal.SIGINT, "interrupted"),
        (signal.SIGABRT, "aborted"),
        (signal.SIGILL, "illegal-instruction"),
        (signal.SIGXFSZ, "file-too-large"),
        (signal.SIGUSR1, "trainer-signalled"),
    ],
)
def test_a_signal_says_what_it_can_whether_the_trainer_or_a_child_of_its_shell_got_it(number: int, reason: str) -> None:
    assert failed("", exit_code=None, number=number) == Reason(reason, {"signal": number})
    assert failed("", exit_code=128 + number) == Reason(reason, {"exit_code": 128 + number})


@pytest.mark.parametrize(
    ("exit_code", "reason"),
    [
        (126, "not-executable"),
        (127, "command-not-found"),
        (78, "trainer-failed"),
        (2, "trainer-failed"),
        (255, "trainer-failed"),
    ],
)
def test_an_exit_code_says_what_a_shell_means_by_it(exit_code: int, reason: str) -> None:
    assert failed("", exit_code=exit_code) == Reason(reason, {"exit_code": exit_code})


def test_the_line_that_belongs_to_an_end_is_quoted() -> None:
    said = "train.sh: line 3: deepspeed: command not found\n"
    assert failed(said, exit_code=127).data == {"exit_code": 127, "detail": said.strip()}
    killed = "train.sh: line 2:  7239 Killed                  python3 train.py\n"
    assert failed(killed, exit_code=137).code == "killed"
    assert failed(TIME_OUT_ON_RANK_3, exit_code=137).data == {"exit_code": 137}


def test_a_named_cause_wins_over_the_signal_that_followed() -> None:
    assert code("std::bad_alloc", exit_code=None, number=signal.SIGABRT) == "out-of-memory"
    assert code(traceback("KeyError: 'chosen'"), exit_code=None, number=signal.SIGKILL) == "data-columns-wrong"
    assert code(traceback("ValueError: odd"), exit_code=None, number=signal.SIGSEGV) == "segmentation-fault"


def test_a_trainer_that_never_was_and_said_nothing_is_the_runners_fault() -> None:
    assert code("", exit_code=None) == "runner-failed"
    assert code("No space left on device", exit_code=None) == "disk-full"


# --- what the machine and the executor know ---------------------------------------------------------------------------


def test_the_memory_limit_that_the_kernel_saw_wins_over_the_log() -> None:
    assert code(traceback("KeyError: 'chosen'"), end=Exit(oom_killed=True)) == "out-of-memory"
    assert classify(Exit(exit_code=137, oom_killed=True), None, None).reason == Reason(
        "out-of-memory", {"exit_code": 137, "signal": None}
    )


@pytest.mark.parametrize(
    ("cause", "gone"),
    [
        ("node-lost", Phase.LOST),
        ("evicted", Phase.LOST),
        ("preempted", Phase.FAILED),
        ("time-limit", Phase.FAILED),
        ("deadline-exceeded", Phase.FAILED),
    ],
)
def test_the_executors_own_cause_is_the_reason(cause: str, gone: Phase) -> None:
    end = Exit(absent=True, cause=cause, detail="NodeFail on n7")
    assert classify(end, None, None) == Verdict(gone, Reason(cause, {"detail": "NodeFail on n7"}), from_outcome=False)
    stopped = classify(Exit(exit_code=143, cause=cause), {"result": "cancelled", "exit_code": 143}, None)
    assert stopped == Verdict(Phase.FAILED, Reason(cause, {"exit_code": 143}), from_outcome=True)
    assert code("KeyError: 'chosen'", end=Exit(cause=cause)) == cause
    ended = classify(Exit(exit_code=1, cause=cause), None, None, "No space left on device")
    assert ended.reason is not None
    assert ended.reason.code == cause


def test_a_cause_that_the_table_does_not_know_is_none() -> None:
    assert classify(Exit(absent=True, cause="gremlins", detail="x"), None, None).reason == Reason("container-lost")


def test_what_we_did_ourselves_wins_over_the_executors_cause() -> None:
    assert classify(Exit(cause="preempted"), None, StopCause.CANCEL).reason == Reason("cancelled")


def test_without_the_runners_word_its_own_traceback_is_no_trainers() -> None:
    log = traceback("ZeroDivisionError: x")
    assert classify(Exit(exit_code=1), None, None, log).reason == Reason(
        "runner-failed", {"exit_code": 1, "signal": None}
    )
    full = classify(Exit(exit_code=1), None, None, log + "No space left on device\n").reason
    assert full is not None
    assert (full.code, full.data["detail"]) == ("disk-full", "No space left on device")


def test_the_last_word_of_bootstrap_is_quoted_without_its_prefix() -> None:
    verdict = classify(Exit(exit_code=78), None, None, "x\nTUNEPLANE-BOOTSTRAP: python-missing: no Python on PATH\ny\n")
    assert verdict.reason == Reason("python-missing", {"exit_code": 78, "signal": None, "detail": "no Python on PATH"})


def test_the_weights_are_in_the_order_that_decides() -> None:
    assert sorted(Weight) == [
        Weight.CAUSE,
        Weight.RAISED,
        Weight.GENERAL,
        Weight.DIED,
        Weight.UNKNOWN,
        Weight.CONSEQUENCE,
        Weight.LAST_RESORT,
    ]
