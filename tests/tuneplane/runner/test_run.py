"""The runner from bootstrap to outcome, beside a real console on loopback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.runner.ingest_server import IngestServer
from tests.tuneplane.runner.job_folder import JOB, JobFolder, wait_until

MakeJob = Callable[..., JobFolder]
SHELLS = [shell for shell in ("dash", "busybox sh", "bash --posix") if shutil.which(shell.split()[0])]
# Names that one shell or another, or a script before the trainer, has a use of its own for.
SHELL_WORDS = (
    "IFS",
    "PS4",
    "PPID",
    "PWD",
    "UID",
    "SHLVL",
    "SHELLOPTS",
    "RANDOM",
    "_",
    "capsule",
    "python",
    "found",
    "candidate",
)


def test_a_run_that_succeeds_is_told_completely(make_job: MakeJob, console: IngestServer) -> None:
    job = make_job("echo hello; echo oops >&2; echo weights > $TUNEPLANE_OUT_DIR/model.bin")
    done = job.run()
    assert done.returncode == 0, done.stderr
    outcome = job.outcome()
    assert (outcome["result"], outcome["exit_code"], outcome["spool_drained"]) == ("succeeded", 0, True)
    assert "hello" in outcome["log_tail"]
    assert "oops" in outcome["log_tail"]
    assert console.text("stdout") == b"hello\n"
    assert console.text("stderr") == b"oops\n"
    assert [event["event"] for event in console.records("event")] == ["trainer-started", "trainer-exited", "outcome"]
    assert job.artifacts()["files"][0]["path"] == "model.bin"
    assert len(job.artifacts()["files"][0]["sha256"]) == 64
    console.assert_no_gaps()
    assert list(job.tmp.iterdir()) == [], "the work dir is left behind"
    assert {beat["state"] for beat in console.heartbeats} <= {"preparing", "running", "draining"}


@pytest.mark.parametrize(
    ("script", "code", "expected"), [("exit 3", 3, {"exit_code": 3}), ("kill -SEGV $$", 139, {"signal": 11})]
)
def test_the_exit_code_is_the_trainers(make_job: MakeJob, script: str, code: int, expected: dict[str, int]) -> None:
    job = make_job(script)
    assert job.run().returncode == code
    outcome = job.outcome()
    assert outcome["result"] == "failed"
    assert expected.items() <= outcome.items()


@pytest.mark.parametrize("shell", SHELLS)
def test_environment_arrives_intact_and_identity_cannot_be_replaced(make_job: MakeJob, shell: str) -> None:
    odd = {"EQUALS": "a=b=c", "QUOTES": '"it\'s"', "LINES": "one\ntwo\n", "NOTHING": "", "SPACE": " x ", "HAN": "训练"}
    odd["PYTHONUNBUFFERED"] = "0"  # the adapter's default is 1

    odd |= dict.fromkeys(SHELL_WORDS, "mine='a'\n")
    given = {**odd, "TUNEPLANE_RUN_ID": "stolen", "HF_HOME": "/elsewhere", "1BAD": "x"}

    def change(capsule: dict[str, Any]) -> None:
        capsule["paths"]["train_data"] = "/data/train"

    # What the shell was started with, before it makes of some names what it likes.
    job = make_job('cat /proc/$$/environ > "$TUNEPLANE_OUT_DIR/env"', change=change)
    passed = {f"TUNEPLANE_ENV_{name}": value for name, value in given.items()}
    process = job.start(shell, TUNEPLANE_RESUME_FROM="/of/the/image", LINES="of the image", **passed)
    _out, err = process.communicate(timeout=90)
    assert process.returncode == 0, err
    pairs = (entry.partition("=") for entry in (job.out / "env").read_text().split("\0") if entry)
    env = {name: value for name, _equals, value in pairs}
    assert {name: env[name] for name in odd} == odd
    assert env["TUNEPLANE_RUN_ID"] == JOB
    assert env["HF_HOME"] == str(job.root / "cache/hub/huggingface")
    assert env["TRAIN_DATA_DIR"] == "/data/train"
    assert "VALIDATION_DATA_DIR" not in env
    assert "TUNEPLANE_RESUME_FROM" not in env, "an image pretends to a resume point"
    assert not [name for name in env if name.startswith("TUNEPLANE_ENV_")], "the trainer sees it twice"
    assert "1BAD" not in env
    assert "RANK" not in env
    assert "WORLD_SIZE" not in env
    assert env["PYTHONPATH"] == env["TUNEPLANE_WORK_DIR"] + "/tuneplane_lib"
    assert env["TUNEPLANE_EXP_DIR"] == env["TUNEPLANE_WORK_DIR"] + "/lab/experiments/exp"
    assert json.loads(env["TUNEPLANE_POOL_TOPOLOGY"])[0]["name"] == "main"


def test_external_observability_leaves_pythonpath_alone(make_job: MakeJob, console: IngestServer) -> None:
    def change(capsule: dict[str, Any]) -> None:
        capsule["jobspec"]["spec"]["framework"].update(observability="external", observability_url="https://w.example")

    job = make_job('echo "$PYTHONPATH"; ls "$TUNEPLANE_WORK_DIR"', change=change)
    assert job.run(TUNEPLANE_ENV_PYTHONPATH="/mine").returncode == 0
    lines = console.text("stdout").decode().split()
    assert lines[0] == "/mine"
    assert "tuneplane_lib" not in lines


REPORTING = """
import sys
from tuneplane.report import init, log, log_samples, finish
init(config={"lr": 0.5, "hub_token": "hf_secret"})
for step in range(100):
    log({"loss": 1 / (step + 1), "train/lr": 0.5, "odd": float("nan") if step == 3 else step}, step=step)
log_samples([{"prompt": "2+2", "completion": "4", "reward": 1.0}], step=99)
assert "tuneplane.runner" not in sys.modules
"""


def test_metrics_samples_and_hyperparameters_reach_the_console(make_job: MakeJob, console: IngestServer) -> None:
    job = make_job('exec "$TUNEPLANE_PYTHON" report.py', files={"report.py": REPORTING})
    done = job.run()
    assert done.returncode == 0, job.outcome()["log_tail"]
    points: dict[str, Any] = {}
    for record in console.records("metric"):
        for name, columns in record["series"].items():
            points.setdefault(name, []).extend(zip(columns["step"], columns["value"]))  # noqa: B905 - strict= needs 3.10
    assert set(points) == {"train/loss", "train/lr", "raw/odd"}
    assert points["train/loss"] == [(step, 1 / (step + 1)) for step in range(100)]
    assert points["raw/odd"][3] == (3, "NaN")
    assert console.records("sample")[0]["samples"][0]["data"]["completion"] == "4"
    assert console.events("hyperparams") == [{"lr": 0.5}]


def test_a_grandchild_that_keeps_stdout_open_does_not_hold_the_run(make_job: MakeJob, console: IngestServer) -> None:
    job = make_job("setsid sleep 1000 & echo $! > $TUNEPLANE_OUT_DIR/pid; echo done")
    assert job.run().returncode == 0
    assert console.text("stdout") == b"done\n"
    pid = int((job.out / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists())  # the process that was left behind
    assert console.events("warning")[0]["code"] == "processes-left"


def test_output_that_something_out_of_reach_holds_open_is_said(
    make_job: MakeJob, console: IngestServer, tmp_path: Path
) -> None:
    """Its descriptors were passed to a process that is no child of the run: it cannot be ended, and is not waited for."""
    code = """\
import socket, sys
with socket.socket(socket.AF_UNIX) as other:
    other.connect(sys.argv[1])
    socket.send_fds(other, [b"x"], [1, 2])
print("done")
"""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        job = make_job(f'exec "$TUNEPLANE_PYTHON" pass_on.py {tmp_path / "s"}', files={"pass_on.py": code})
        process = job.start()
        connection, _ = listener.accept()
        with connection:
            _, held, _, _ = socket.recv_fds(connection, 1, 2)
        process.communicate(timeout=60)
        for fd in held:
            os.close(fd)
    assert process.returncode == 0
    assert console.text("stdout") == b"done\n"
    assert [data["code"] for data in console.events("warning")] == ["output-held-open"]
    assert "stderr and stdout" in console.events("warning")[0]["text"]


def test_output_in_flight_after_the_exit_is_not_lost(make_job: MakeJob, console: IngestServer) -> None:
    job = make_job("(while kill -0 $$ 2> /dev/null; do :; done; echo late) & exit 0")
    assert job.run().returncode == 0
    assert console.text("stdout") == b"late\n"


def test_sigterm_reaches_the_trainer_and_gives_it_grace(make_job: MakeJob, console: IngestServer) -> None:
    job = make_job(
        "trap 'echo saving; touch $TUNEPLANE_OUT_DIR/saved; exit 7' TERM; touch $TUNEPLANE_OUT_DIR/up; while :; do sleep 0.05; done"
    )
    process = job.start()
    wait_until((job.out / "up").exists)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 7
    assert (job.out / "saved").exists()
    assert job.outcome()["result"] == "cancelled"
    assert console.events("signal") == [{"signal": "SIGTERM"}]
    assert b"saving" in console.text("stdout")
    assert job.artifacts()["files"], "a cancelled run registers its files too"


def test_a_trainer_that_ignores_sigterm_is_killed_with_all_it_started(make_job: MakeJob) -> None:
    def change(capsule: dict[str, Any]) -> None:
        capsule["jobspec"]["spec"]["limits"]["grace"] = 1

    script = "trap '' TERM; setsid sleep 1000 & echo $! > $TUNEPLANE_OUT_DIR/pid; touch $TUNEPLANE_OUT_DIR/up; while :; do sleep 1; done"
    job = make_job(script, change=change)
    process = job.start()
    wait_until((job.out / "up").exists)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 137
    assert job.outcome()["result"] == "cancelled"
    assert job.outcome()["signal"] == 9
    child = (job.out / "pid").read_text().strip()
    wait_until(lambda: not Path("/proc", child).exists())


def test_a_cancel_in_the_heartbeat_stops_the_run(make_job: MakeJob, console: IngestServer) -> None:
    job = make_job("touch $TUNEPLANE_OUT_DIR/up; while :; do sleep 0.05; done")
    process = job.start()
    wait_until((job.out / "up").exists)
    console.desired = "cancel"
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert job.outcome()["result"] == "cancelled"
    assert console.events("signal") == [{"signal": "cancel"}]


def test_a_run_that_is_cancelled_from_the_first_moment_ends_cancelled(make_job: MakeJob, console: IngestServer) -> None:
    console.desired = "cancel"
    job = make_job("while :; do sleep 0.05; done")
    assert job.run().returncode == 143
    assert job.outcome()["result"] == "cancelled"


def test_a_second_signal_ends_the_drain(make_job: MakeJob, console: IngestServer) -> None:
    def change(capsule: dict[str, Any]) -> None:
        capsule["ingest"]["drain_seconds"] = 600.0

    console.stop()
    job = make_job("echo kept", change=change)
    process = job.start()
    wait_until((job.out / "outcome.json").exists)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert job.outcome()["result"] == "succeeded"
    assert not job.outcome()["spool_drained"]


def test_each_rank_has_a_series_of_its_own(make_job: MakeJob, console: IngestServer) -> None:
    code = "import os\nfrom tuneplane.report import log\nlog({'loss': float(os.environ['RANK'])}, 1)"
    script = 'for r in 0 1 2; do RANK=$r "$TUNEPLANE_PYTHON" rank.py & done; wait'
    job = make_job(script, files={"rank.py": code})
    assert job.run().returncode == 0
    values = [
        record["series"]["train/loss"]["value"] for rank in range(3) for record in console.records("metric", rank)
    ]
    assert values == [[0.0], [1.0], [2.0]]


def test_a_storage_root_that_cannot_be_written_is_a_reason(make_job: MakeJob) -> None:
    job = make_job("echo never")
    job.spool.rmdir()
    job.spool.write_text("a file where a directory should be")
    done = job.run()
    assert done.returncode == 78
    assert "TUNEPLANE-BOOTSTRAP: storage-failed" in done.stderr
    assert "Traceback" not in done.stderr


def test_ten_thousand_lines_then_cancelled_at_once(make_job: MakeJob, console: IngestServer) -> None:
    """scenario 10: the last line that the trainer flushed is there, before the run is over for the console."""
    code = "for i in range(1, 10001): print(i, flush=True)\nprint('last', flush=True)\nimport time; time.sleep(1000)\n"
    job = make_job('exec "$TUNEPLANE_PYTHON" lines.py', files={"lines.py": code})
    process = job.start()
    console.wait_for(lambda: b"\n100\n" in console.text("stdout"))
    console.desired = "cancel"
    process.communicate(timeout=60)
    assert job.outcome()["result"] == "cancelled"
    written = console.text("stdout").split(b"\n")
    expected = [b"%d" % number for number in range(1, 10001)] + [b"last"]
    assert written.pop() == b"", "every write of the trainer was a whole line"
    assert written == expected[: len(written)]
    order = [record["event"] for record in console.records("event")]
    assert order[-1] == "outcome"
    assert job.outcome()["lost"] == {}
    console.assert_no_gaps()


def test_a_progress_bar_that_is_drawn_a_hundred_thousand_times(make_job: MakeJob, console: IngestServer) -> None:
    """scenario 11, the runner's part: few records, every byte, and the last state among them."""
    code = "import sys\nfor i in range(100000): sys.stderr.write('\\r %6d/100000' % i); sys.stderr.flush()\nsys.stderr.write('\\n')\n"
    job = make_job('exec "$TUNEPLANE_PYTHON" bar.py', files={"bar.py": code})
    assert job.run().returncode == 0
    assert console.text("stderr") == b"".join(b"\r %6d/100000" % number for number in range(100000)) + b"\n"
    assert len(console.records("log")) < 500


def test_a_hundred_thousand_lines_arrive_in_order(make_job: MakeJob, console: IngestServer) -> None:
    script = 'exec "$TUNEPLANE_PYTHON" -u -c "for i in range(100000): print(i)"'
    job = make_job(script)
    assert job.run().returncode == 0
    assert console.text("stdout") == b"".join(b"%d\n" % number for number in range(100000))
    console.assert_no_gaps()


def test_bytes_that_are_no_text_are_kept(make_job: MakeJob, console: IngestServer) -> None:
    """scenario 13"""
    gbk = "训练".encode("gbk")
    parts = [gbk, b"\xff", "\U0001f600".encode()[:2], "\U0001f600".encode()[2:], b"\0", b"end\n"]
    code = f"import os,time\nfor part in {parts!r}:\n    os.write(1, part)\n    time.sleep(0.1)\n"
    job = make_job('exec "$TUNEPLANE_PYTHON" write.py', files={"write.py": code})
    assert job.run().returncode == 0
    assert console.text("stdout") == b"".join(parts)
    emoji = [record for record in console.records("log") if "\U0001f600" in record.get("data", "")]
    assert emoji, "a character split over two reads must not be cut"
    assert "\0" not in job.outcome()["log_tail"]


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda job: job.package.write_bytes(b"tampered"), "package-corrupt"),
        (lambda job: job.package.unlink(), "storage-failed"),
    ],
)
def test_a_broken_package_is_a_reason_and_exit_78(
    make_job: MakeJob, console: IngestServer, break_it: Any, reason: str
) -> None:
    job = make_job("echo never")
    break_it(job)
    assert job.run().returncode == 78
    outcome = job.outcome()
    assert outcome["result"] == "failed"
    assert outcome["reason"] == reason
    assert outcome["detail"]
    assert console.events("outcome")[0]["reason"] == reason
    assert list(job.tmp.iterdir()) == []


def test_an_experiment_without_its_entry_point_is_named(make_job: MakeJob) -> None:
    def change(capsule: dict[str, Any]) -> None:
        capsule["recipe"]["entrypoint"]["value"] = "other.sh"

    job = make_job("echo never", change=change)
    assert job.run().returncode == 78
    assert job.outcome()["reason"] == "entrypoint-missing"
    assert "other.sh" in job.outcome()["detail"]


def test_a_capsule_of_another_run_is_refused(make_job: MakeJob) -> None:
    job = make_job("echo never")
    done = job.run(TUNEPLANE_RUN_ID="f" * 16)
    assert done.returncode == 78
    assert "TUNEPLANE-BOOTSTRAP: package-corrupt" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_machine_that_is_not_the_first_writes_beside_the_outcome(make_job: MakeJob, console: IngestServer) -> None:
    job = make_job("echo from $TUNEPLANE_MACHINE_RANK of $TUNEPLANE_MACHINE_COUNT", machines=2)
    assert job.run(TUNEPLANE_MACHINE_RANK="1").returncode == 0
    assert job.outcome("outcome.1.json")["machine_rank"] == 1
    assert not (job.out / "outcome.json").exists()
    assert not (job.out / "artifacts.json").exists()
    assert console.records("log", rank=1)[0]["data"] == "from 1 of 2\n"


def test_a_pythonpath_for_the_trainer_does_not_reach_the_runner(
    make_job: MakeJob, tmp_path: Any, console: IngestServer
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the runner imports the trainer\\'s modules')")
    job = make_job("echo fine")
    done = job.run(PYTHONPATH=str(tmp_path), PYTHONHOME="")
    assert done.returncode == 0, done.stderr
    assert console.text("stdout") == b"fine\n"


def test_a_checkpoint_outside_the_out_dir_is_warned_about(tmp_path: Any) -> None:
    from tuneplane.runner.watcher import find_outside

    (tmp_path / "lab/experiments/exp").mkdir(parents=True)
    assert find_outside(str(tmp_path)) is None
    (tmp_path / "lab/experiments/exp/output/checkpoint-10").mkdir(parents=True)
    assert find_outside(str(tmp_path)) == str(tmp_path / "lab/experiments/exp/output/checkpoint-10")


def test_the_trainer_runs_with_the_python_that_bootstrap_found(make_job: MakeJob, console: IngestServer) -> None:
    def change(capsule: dict[str, Any]) -> None:
        capsule["jobspec"]["spec"]["framework"]["kind"] = "trl"
        capsule["recipe"]["entrypoint"]["value"] = "train.py"
        capsule["jobspec"]["spec"]["config"] = {"learning_rate": 1e-5}

    code = "import json,sys; print(sys.executable); print(json.load(open(sys.argv[2]))['output_dir'])"
    job = make_job("", files={"train.py": code}, change=change)
    assert job.run().returncode == 0, job.outcome()
    assert console.text("stdout").decode().split() == [sys.executable, str(job.out / "checkpoints")]
