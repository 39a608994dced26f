"""tuneplane.report as a training script meets it: each test is a script in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tuneplane.report.scripts import environment, run_script


def test_every_point_of_a_burst_arrives(tmp_path: Path) -> None:
    # finish() gives up after two seconds, which a busy machine needs for more than the end of such a queue.
    code = """
import time
from tuneplane.report import log, finish, session
values = {"train/m%d" % i: 0.5 + i for i in range(8)}
for step in range(20000):
    log(values, step)
end = time.monotonic() + 60
while session._recorder.queue and time.monotonic() < end:
    time.sleep(0.01)
finish()
"""
    found = run_script(tmp_path, code)
    assert found.returncode == 0
    assert found.stderr == ""
    for number in range(8):
        assert found.points(f"train/m{number}") == [(step, 0.5 + number) for step in range(20000)]


def test_without_finish_the_rest_is_written_at_exit(tmp_path: Path) -> None:
    found = run_script(
        tmp_path, "from tuneplane.report import log\nlog({'a': 1})\nraise RuntimeError('the training failed')"
    )
    assert found.returncode == 1
    assert found.points("a") == [(0, 1)]


def test_a_process_that_is_killed_leaves_what_it_logged_before(tmp_path: Path) -> None:
    code = "from tuneplane.report import log\nimport time\nlog({'a': 1.5}, 7)\ntime.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", code], env=environment(tmp_path))
    end = time.monotonic() + 60
    while not any(path.stat().st_size for path in tmp_path.glob("*.ndjson")):
        assert time.monotonic() < end, "nothing was written while the script runs"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    assert run_script(tmp_path, "pass").points("a") == [(7, 1.5)]


def test_what_was_logged_before_a_flush_outlives_a_kill_at_once(tmp_path: Path) -> None:
    """A checkpoint is where a killed run goes on: the points before it must not wait for company."""
    code = """
import os, signal
from tuneplane.report import log, log_event, session
session.flush()
for step in range(5):
    log({"a": step}, step)
log_event("checkpoint", {"path": "/x", "step": 4})
session.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""
    found = run_script(tmp_path, code)
    assert found.returncode == -signal.SIGKILL
    assert found.points("a") == [(step, step) for step in range(5)]


def test_outside_a_job_one_line_says_so_and_nothing_happens(tmp_path: Path) -> None:
    code = """
from tuneplane.report import init, log, log_samples, finish
import threading
init(config={"lr": 1}); log({"a": 1}); log({"a": 2}); log_samples([{"prompt": "p"}]); finish()
assert threading.active_count() == 1
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(None), capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert done.stderr.count("nothing is recorded") == 1
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


AWKWARD = """
from tuneplane.report import log, log_samples, init, finish
class Explodes:
    def item(self): raise MemoryError("no")
    def __str__(self): raise ValueError("no")
    def __float__(self): raise TypeError("no")
class Tensor:
    def __init__(self, value): self.value = value
    def item(self): return self.value
    def __float__(self): raise RuntimeError("use item()")
class Loss(float):
    def __repr__(self): return "tensor(0.5)"
deep = {}
deep["self"] = deep
init(config=5); log(None); log(5); log([("a", 1)]); log({1: 2.0, (3, 4): 5.0, "": 1.0, "x" * 500: 1.0, "a\\nb": 1.0})
log({"text": "1.0", "none": None, "list": [1], "bad": Explodes(), "good": 1.0, "deep": deep}, "not a step")
log({"nested": {"a": 1, "b": {"c": True}}, "tensor": Tensor(2.5), "sub": Loss(0.5), "huge": 10 ** 400, "minus": -10 ** 400}, 3)
log({"nan": float("nan"), "inf": float("inf"), "low": float("-inf"), "big": 2 ** 70, "fast": 10 ** 400}, Tensor(4))
log({"late": 1.0}, float("nan")); log({"far": 1.0}, 2 ** 80)
log_samples(None); log_samples([5]); log_samples([{"prompt": Explodes()}]); log_samples([{}], kind="song")
finish()
print("alive")
"""


def test_nothing_a_script_logs_can_raise_into_it(tmp_path: Path) -> None:
    found = run_script(tmp_path, AWKWARD)
    assert found.returncode == 0, found.stderr
    assert found.points("good")[0][1] == 1.0
    assert found.points("1") == []
    assert found.points("nested/a") == [(3, 1)]
    assert found.points("nested/b/c") == [(3, 1)]
    assert found.points("tensor") == [(3, 2.5)]
    assert found.points("sub") == [(3, 0.5)]
    assert found.points("huge") == [(3, "Infinity")]
    assert found.points("minus") == [(3, "-Infinity")]
    assert found.points("nan") == [(4, "NaN")]
    assert found.points("inf") == [(4, "Infinity")]
    assert found.points("low") == [(4, "-Infinity")]
    assert found.points("big") == [(4, float(2**70))]
    assert found.points("fast") == [(4, "Infinity")]
    assert found.points("late") == [(5, 1.0)]
    assert found.points("far") == [(2**53, 1.0)]
    assert not found.names() & {"text", "none", "list", "bad", "", "x" * 500, "a\nb"}
    assert found.stderr.count("not a number;") == 1, "one warning per kind of problem"
    assert found.stderr.count("metric name") == 1
    assert "Traceback" not in found.stderr


def test_a_value_is_read_when_it_is_logged_and_not_held(tmp_path: Path) -> None:
    code = """
import weakref
from tuneplane.report import log, finish
class Tensor:
    value = 1.0
    def item(self): return self.value
tensor = Tensor()
values = {"loss": tensor, "plain": 1.0}
log(values, 0)
tensor.value = 99.0
gone = weakref.ref(tensor)
del tensor, values["loss"]
assert gone() is None, "a queued reference would hold GPU memory"
plain = {"plain": 1.0}
log(plain, 1)
plain["plain"] = 99.0
finish()
"""
    found = run_script(tmp_path, code)
    assert found.returncode == 0, found.stderr
    assert found.points("loss") == [(0, 1.0)]
    assert found.points("plain") == [(0, 1.0), (1, 1.0)]


def test_a_step_left_out_is_one_more_than_the_last(tmp_path: Path) -> None:
    code = "from tuneplane.report import log\nlog({'a': 1}); log({'a': 2}); log({'a': 3}, 10); log({'a': 4}); log({'a': 5}, 2)"
    assert run_script(tmp_path, code).points("a") == [(0, 1), (1, 2), (10, 3), (11, 4), (2, 5)]


def test_an_epoch_has_its_column_and_order_is_kept(tmp_path: Path) -> None:
    code = """
from tuneplane.report import log
log({"a": 1.0}, 1, epoch=0.5); log({"a": 2.0}, 2, epoch=1); log({"a": 3.0}, 3); log({"a": 4.0}, 4, epoch=float("nan"))
"""
    found = run_script(tmp_path, code)
    assert found.points("a") == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)]
    columns = [line["series"]["a"] for line in found.lines]
    assert [column.get("epoch") for column in columns] == [[0.5, 1.0], None]


def test_threads_may_log_at_once(tmp_path: Path) -> None:
    code = """
import threading
from tuneplane.report import log
def work(name):
    for step in range(2000): log({name: step}, step)
threads = [threading.Thread(target=work, args=("t%d" % n,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    found = run_script(tmp_path, code)
    for number in range(4):
        assert found.points(f"t{number}") == [(step, step) for step in range(2000)]


FORKS = {
    "fork": "pid = os.fork()\nif not pid:\n    log({'child': 2}, 5); finish(); os._exit(0)\nos.waitpid(pid, 0)",
    "multiprocessing": "p = multiprocessing.get_context('fork').Process(target=log, args=({'child': 2}, 5)); p.start(); p.join()",
}


@pytest.mark.parametrize("how", FORKS)
def test_a_forked_child_has_a_file_of_its_own(tmp_path: Path, how: str) -> None:
    head = "import os, multiprocessing, warnings\nwarnings.simplefilter('ignore')\nfrom tuneplane.report import log, finish\n"
    found = run_script(tmp_path, f"{head}log({{'parent': 1}}, 1)\n{FORKS[how]}\nlog({{'parent': 3}}, 2)")
    assert found.returncode == 0, found.stderr
    assert found.points("parent") == [(1, 1), (2, 3)]
    assert found.points("child") == [(5, 2)]
    assert len(found.files) == 2


def test_logging_goes_on_after_finish(tmp_path: Path) -> None:
    code = "from tuneplane.report import log, finish\nlog({'a': 1}); finish(); log({'a': 2}); finish(); finish()"
    assert run_script(tmp_path, code).points("a") == [(0, 1), (1, 2)]


def test_a_report_directory_that_is_not_there_costs_a_warning(tmp_path: Path) -> None:
    found = run_script(
        tmp_path / "missing", "from tuneplane.report import log\nfor _ in range(9): log({'a': 1})\nprint('on')"
    )
    assert found.returncode == 0
    assert found.stderr.count("takes no more") == 1
    assert "Traceback" not in found.stderr


def test_hyperparameters_leave_secrets_out_and_come_from_the_main_rank(tmp_path: Path) -> None:
    code = """
from tuneplane.report import init
init(config={"lr": 1e-3, "hub_token": "s", "eos_token": "</s>", "max_tokens": 5, "nested": {"OPENAI_API_KEY": "s", "wandb_api_key": "s",
    "db_password": "s", "x": 1}, "list": [1, {"secret": 1}], "object": object})
"""
    found = run_script(tmp_path, code)
    (config,) = found.events("hyperparams")
    assert config["nested"] == {"x": 1}
    assert config["list"] == [1, {}]
    assert "hub_token" not in config
    assert config["eos_token"] == "</s>"
    assert config["max_tokens"] == 5
    (tmp_path / "other").mkdir()
    assert run_script(tmp_path / "other", code, RANK="1").lines == []


def test_samples_keep_their_keys_and_long_texts_are_cut(tmp_path: Path) -> None:
    code = """
from tuneplane.report import log, log_samples
log({"a": 1.0}, 41)
log_samples([{"prompt": "p", "completion": "c", "reward": 1.0, "rewards": {"f": float("nan")}}])
log_samples([{"prompt": "\\ud800" + "\\u8bad" * 300000, "chosen": "\\n" * 300000, "rejected": "r"}], step=3, kind="preference")
log_samples(({"messages": [{"role": "user", "content": str(n)}]} for n in range(1500)), 4, kind="conversation")
"""
    found = run_script(tmp_path, code)
    first, second, *rest = found.samples()
    assert (first["kind"], first["step"]) == ("completion", 41)
    assert first["data"]["rewards"] == {"f": "NaN"}
    assert second["kind"] == "preference"
    assert second["data"]["rejected"] == "r"
    assert max(len(line) for path in found.files for line in path.read_bytes().splitlines()) < 2 * 1024 * 1024
    assert len(rest) == 1000
    assert "at most 1000 samples" in found.stderr


def test_no_module_beside_the_standard_library_is_imported(tmp_path: Path) -> None:
    code = """
import sys
before = set(sys.modules)
import tuneplane.report, tuneplane.report.integrations.transformers
from tuneplane.report import log, finish
log({"a": 1}); finish()
ours = {name for name in set(sys.modules) - before if name.startswith("tuneplane.")}
assert not [name for name in ours if name.split(".")[1] not in ("report", "contract")], ours
for heavy in ("pydantic", "yaml", "transformers", "torch", "numpy", "asyncio", "ssl"):
    assert heavy not in sys.modules, heavy
"""
    found = run_script(tmp_path, code)
    assert found.returncode == 0, found.stderr
