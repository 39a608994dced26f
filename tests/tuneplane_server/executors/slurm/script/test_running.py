"""What a rendered script does in a real shell."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from tuneplane_server.executors.slurm.intents import OVER_FILE
from tuneplane_server.executors.slurm.script import Part, parse_exit

from .conftest import Job, options_named

in_both_shells = pytest.mark.parametrize("shell", ["dash", "bash"], indirect=True)
SHOW = 'python3 -c \'import json, os; json.dump(dict(os.environ), open("%s/out/env-" + os.environ["TUNEPLANE_MACHINE_RANK"], "w"))\'\n'
# As the runner does: it sees a `stop` in its spool, and a SIGTERM.
WAITS = """\
rank=$TUNEPLANE_MACHINE_RANK out="%(out)s" spool="%(spool)s"
trap 'echo TERM >>"$out/told-$rank"; exit 143' TERM
: >"$out/running-$rank"
while [ ! -e "$spool/rank-$rank/stop" ]; do sleep 1; done
echo stop >>"$out/told-$rank"
exit 143
"""
NASTY = "a 'quoted' \"word\"\nline $HOME `id` $(id) \\n ü 三 *"


def shows_environment(job: Job) -> str:
    return SHOW % str(job.root).replace("'", "'\"'\"'")


def waits(job: Job) -> str:
    return WAITS % {"out": job.root / "out", "spool": job.root / "spool"}


def environment_of(job: Job, rank: int = 0) -> dict[str, str]:
    found: dict[str, str] = json.loads((job.root / "out" / f"env-{rank}").read_text())
    return found


def test_one_machine_ends_with_its_code_and_leaves_it(job: Job) -> None:
    job.body("echo hello from inside\nexit 7\n")
    assert job.run() == 7
    assert (job.end_of(0).code, job.end_of(0).told) == (7, False)
    assert "hello from inside" in job.output
    assert (job.slurm / "started").read_text() == "700\n"
    assert list((job.root / "tmp").glob("tuneplane-*")) == []


@in_both_shells
def test_values_arrive_as_they_are_and_stand_in_no_argument(job: Job) -> None:
    job.body(shows_environment(job))
    assert job.run(GREETING=NASTY, FORGOTTEN="not named") == 0, job.output
    seen = environment_of(job)
    assert seen["GREETING"] == NASTY
    assert seen["TUNEPLANE_RUN_ID"] == "j1"
    assert "FORGOTTEN" not in seen
    assert not [name for name in seen if name.startswith("SLURM_")]
    told = json.dumps(job.srun_calls()) + json.dumps(job.container()["argv"]) + (job.root / "slurm_script").read_text()
    assert "$(id)" not in told
    assert json.dumps(NASTY) not in told


def test_home_and_tmp_can_be_written(job: Job) -> None:
    job.body(f'touch "$HOME/here" && {shows_environment(job)}')
    assert job.run() == 0, job.output
    assert environment_of(job)["HOME"] != "/nonexistent"


@in_both_shells
def test_ranks_count_through_the_parts(job: Job) -> None:
    job.change(parts=(Part(2, 8), Part(1, 4)))
    job.body(shows_environment(job))
    assert job.run() == 0, job.output
    seen = [environment_of(job, rank) for rank in range(3)]
    assert [item["TUNEPLANE_MACHINE_RANK"] for item in seen] == ["0", "1", "2"]
    assert {item["TUNEPLANE_MACHINE_COUNT"] for item in seen} == {"3"}
    assert {item["TUNEPLANE_MAIN_PROCESS_IP"] for item in seen} == {"10.0.0.7"}
    assert len({item["TUNEPLANE_MAIN_PROCESS_PORT"] for item in seen}) == 1
    assert [item["CUDA_VISIBLE_DEVICES"].count(",") + 1 for item in seen] == [8, 8, 4]
    places = [(call["options"]["--het-group"], call["options"]["--nodelist"]) for call in job.srun_calls()]
    assert places == [("0", "n0"), ("0", "n1"), ("1", "n100")]
    assert ["--nv"] in job.container(2)["options"]


def test_the_batch_host_is_machine_0_wherever_it_stands(job: Job) -> None:
    job.change(parts=(Part(3, 0),))
    job.body("exit 0\n")
    assert job.run(SLURMD_NODENAME="n1") == 0, job.output
    assert [call["options"]["--nodelist"] for call in job.srun_calls()] == ["n1", "n0", "n2"]


def test_machines_that_no_step_reaches_are_refused(job: Job) -> None:
    job.change(parts=(Part(2, 0),))
    job.body("exit 0\n")
    assert job.run(STAND_UNREACHABLE="1") == 78
    assert "launch-failed: no step can be started on each of the 2 machines; srun's words are above" in job.output
    assert "srun: error: Unable to create step" in job.output


def test_a_machine_without_gpus_sees_none(job: Job) -> None:
    job.body(shows_environment(job))
    assert job.run() == 0, job.output
    seen = environment_of(job)
    assert (seen["CUDA_VISIBLE_DEVICES"], seen["NVIDIA_VISIBLE_DEVICES"]) == ("NoDevFiles", "void")
    assert ["--nv"] not in job.container()["options"]
    assert "--gres" not in job.srun_calls()[0]["options"]


def test_mounts_are_at_the_same_path_parents_first(job: Job) -> None:
    inner = job.root / "out" / "inner"
    job.change(read_only=(inner, job.root / "capsule"))
    job.body("")
    assert job.run() == 0, job.output
    binds = [bind for bind in options_named("--bind", job.container()["options"]) if bind != "/dev/infiniband"]
    assert binds == [
        f"{job.root}/capsule:{job.root}/capsule:ro",
        f"{job.root}/out:{job.root}/out",
        f"{job.root}/spool:{job.root}/spool",
        f"{inner}:{inner}:ro",
    ]


@in_both_shells
def test_when_one_machine_fails_the_others_have_their_grace(job: Job) -> None:
    job.change(parts=(Part(3, 0),))
    job.body(f'[ "$TUNEPLANE_MACHINE_RANK" != 1 ] || {{ echo it broke; exit 5; }}\n{waits(job)}')
    assert job.run() == 143, job.output
    assert job.codes() == [143, 5, 143]
    assert [job.end_of(rank).told for rank in range(3)] == [True, False, True]
    assert (job.root / "out" / "told-2").read_text() == "stop\n"
    assert "---- machine 1\nit broke\n" in job.output


@in_both_shells
def test_who_does_not_end_within_the_grace_is_killed(job: Job) -> None:
    job.change(parts=(Part(2, 0),), grace=1)
    there = f'"{job.root}/out/there"'
    job.body(
        f'if [ "$TUNEPLANE_MACHINE_RANK" = 1 ]; then while [ ! -e {there} ]; do sleep 1; done; exit 5; fi\n'
        f'trap "" TERM\n: >{there}\nwhile :; do sleep 1; done\n'
    )
    assert job.run() == 137, job.output
    assert job.codes() == [137, 5]
    assert "machine 0 did not end within 1 s and is killed" in job.output


def test_machines_that_outlive_the_first_one_are_ended(job: Job) -> None:
    job.change(parts=(Part(2, 0),), linger=1)
    job.body(f'[ "$TUNEPLANE_MACHINE_RANK" != 0 ] || exit 0\n{waits(job)}')
    assert job.run() == 0, job.output
    assert job.codes() == [0, 143]
    assert job.end_of(1).told


@in_both_shells
def test_a_signal_to_the_script_reaches_the_runners_and_is_outlived(job: Job) -> None:
    job.change(parts=(Part(2, 0),))
    job.body(waits(job))
    script = job.start()
    for rank in range(2):
        job.wait_for(job.root / "out" / f"running-{rank}")
    os.killpg(script.pid, signal.SIGTERM)  # everything in its process group, as proctrack/pgid does
    assert script.wait(60) == 143, job.output
    assert [(job.root / "out" / f"told-{rank}").read_text() for rank in range(2)] == ["stop\n", "stop\n"]
    assert job.codes() == [143, 143]


@in_both_shells
def test_a_signal_to_the_first_process_of_a_step_is_passed_on(job: Job) -> None:
    job.body(waits(job))
    script = job.start()
    job.wait_for(job.root / "out" / "running-0")
    os.kill(job.container()["pid"], signal.SIGTERM)  # as proctrack/cgroup does
    assert script.wait(60) == 143, job.output
    assert (job.root / "out" / "told-0").read_text() == "TERM\n"


def test_a_step_whose_end_nobody_saw_counts_as_killed(job: Job) -> None:
    job.body(waits(job))
    script = job.start()
    job.wait_for(job.root / "out" / "running-0")
    job.wait_for(job.slurm / "step-0.pid")
    keeper, step = map(int, (job.slurm / "step-0.pid").read_text().split())
    os.kill(keeper, signal.SIGKILL)
    os.kill(step, signal.SIGTERM)
    assert script.wait(60) == 137, job.output
    assert job.codes() == [137]


def test_a_step_whose_keeper_is_gone_runs_on(job: Job) -> None:
    job.body(waits(job))
    script = job.start()
    job.wait_for(job.root / "out" / "running-0")
    job.wait_for(job.slurm / "step-0.pid")
    (job.slurm / "beat").unlink(missing_ok=True)
    os.kill(int((job.slurm / "step-0.pid").read_text().split()[0]), signal.SIGKILL)
    job.wait_for(job.slurm / "beat")  # every ten looks
    assert not (job.slurm / "rank-0.exit").exists()
    script.terminate()
    assert script.wait(60) == 137, job.output
    assert (job.root / "out" / "told-0").read_text() == "stop\n"


@in_both_shells
def test_a_machine_that_got_no_step_was_not_launched(job: Job) -> None:
    """As of a slurmctld that was killed before it wrote down that the job runs."""
    job.body("exit 0\n")
    assert job.run(STAND_REFUSES="1") == 78
    assert "TUNEPLANE-BOOTSTRAP: launch-failed: srun: error: Unable to confirm allocation for job 700" in job.output
    assert job.codes() == [78]


def test_a_step_that_srun_gave_up_is_no_success(job: Job) -> None:
    job.body("exit 0\n")
    assert job.run(STAND_ABORTS="1") == 137
    assert job.codes() == [137]


def test_a_requeued_job_starts_nothing(job: Job) -> None:
    job.body("exit 0\n")
    assert job.run(SLURM_RESTART_COUNT="1") == 78
    assert "TUNEPLANE-BOOTSTRAP: requeued: " in job.output
    assert not (job.slurm / "started").exists()


@in_both_shells
def test_a_second_slurm_job_of_the_attempt_starts_nothing(job: Job) -> None:
    job.body("exit 0\n")
    assert job.run() == 0
    assert job.run(SLURM_JOB_ID="701") == 78
    assert (
        "TUNEPLANE-BOOTSTRAP: launch-failed: Slurm job 700 has this attempt; this one, 701, starts nothing"
        in job.output
    )
    assert len(job.srun_calls()) == 1
    assert job.codes() == [0]


def test_a_second_start_of_the_same_job_ends_with_the_first(job: Job) -> None:
    """As a slurmctld does that was killed before it wrote down that the job runs."""
    job.body(waits(job))
    first = job.start()
    job.wait_for(job.root / "out" / "running-0")
    second = job.start()
    job.wait_until("it follows", lambda: "this one ends with it" in job.output)
    second.terminate()
    assert (first.wait(60), second.wait(60)) == (143, 143), job.output
    assert (job.root / "out" / "told-0").read_text() == "stop\n"
    assert len(job.srun_calls()) == 1


def test_a_second_start_does_not_wait_for_a_first_one_that_is_gone(job: Job) -> None:
    job.change(silent=1)
    (job.slurm / "started").write_text("700\n")
    (job.slurm / "beat").write_text("30\n")
    job.body("exit 0\n")
    assert job.run() == 78
    assert "TUNEPLANE-BOOTSTRAP: requeued: Slurm starts job 700 again, and the first start has gone" in job.output


@in_both_shells
def test_a_start_that_has_not_yet_said_who_it_is_is_waited_for(job: Job, tmp_path: Path) -> None:
    """`started` is made and then written; here it is written while the second start waits."""
    job.change(silent=1)
    (job.slurm / "started").touch()
    (tmp_path / "bin" / "sleep").write_text("#!/bin/sh\n[ -s started ] || echo 700 >started\nexec /bin/sleep 0.2\n")
    job.body("exit 0\n")
    assert job.run() == 78
    assert "Slurm starts job 700 again; the first start has the attempt" in job.output


def test_a_start_that_never_said_who_it_is_is_not_waited_for_for_ever(job: Job, tmp_path: Path) -> None:
    (job.slurm / "started").touch()
    (tmp_path / "bin" / "sleep").write_text("#!/bin/sh\n")
    job.body("exit 0\n")
    assert job.run() == 78
    assert f"TUNEPLANE-BOOTSTRAP: launch-failed: {job.slurm}/started says of no job" in job.output


@in_both_shells
def test_an_attempt_that_was_proved_to_be_over_is_not_begun(job: Job) -> None:
    """A submit that came late, or a slurmctld that lost its newest state and starts a job that was cancelled."""
    (job.slurm / OVER_FILE).write_text('{"at": 1}\n')
    job.body(f'touch "{job.root}/out/ran"\n')
    assert job.run() == 78
    assert "TUNEPLANE-BOOTSTRAP: launch-failed: this attempt was proved to be over before" in job.output
    assert not (job.root / "srun.log").exists()
    assert not (job.root / "out" / "ran").exists()


def test_a_job_that_goes_on_after_its_end_was_proved_is_ended(job: Job) -> None:
    job.body(waits(job))
    script = job.start()
    job.wait_for(job.root / "out" / "running-0")
    (job.slurm / OVER_FILE).write_text('{"at": 1}\n')
    assert script.wait(60) == 143, job.output
    assert (job.root / "out" / "told-0").read_text() == "stop\n"
    assert job.end_of(0).told


@pytest.mark.parametrize("given", [0, 3])
def test_too_few_gpus_are_refused(job: Job, given: int) -> None:
    job.change(parts=(Part(1, 8),))
    job.body("exit 0\n")
    assert job.run(STAND_GPUS=str(given)) == 78
    assert f"TUNEPLANE-BOOTSTRAP: gpus-missing: machine 0 (n0) has {given} of the 8 GPUs it needs" in job.output


def test_singularity_does_where_only_that_is(job: Job, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    text = (programs / "apptainer").read_text().replace("APPTAINERENV_", "SINGULARITYENV_")
    (programs / "apptainer").unlink()
    (programs / "singularity").write_text(text)
    (programs / "singularity").chmod(0o755)
    job.body(shows_environment(job))
    assert job.run(GREETING=NASTY) == 0, job.output
    assert environment_of(job)["GREETING"] == NASTY


def test_without_a_runtime_it_says_what_it_looked_for(job: Job, tmp_path: Path) -> None:
    (tmp_path / "bin" / "apptainer").unlink()
    job.body("exit 0\n")
    assert job.run() == 78
    assert "TUNEPLANE-BOOTSTRAP: launch-failed: neither apptainer nor singularity on PATH=" in job.output


def test_an_image_that_is_not_there_is_named(job: Job) -> None:
    Path(job.request.image).unlink()
    job.body("exit 0\n")
    assert job.run() == 78
    assert f"TUNEPLANE-BOOTSTRAP: launch-failed: the image {job.request.image} cannot be read on n0" in job.output


def test_two_jobs_on_a_node_have_ports_of_their_own(job: Job) -> None:
    job.body(shows_environment(job))
    ports = []
    for number in ("700", "701"):
        for name in ("started", "rank-0.exit", "step-0.pid"):
            (job.slurm / name).unlink(missing_ok=True)
        assert job.run(SLURM_JOB_ID=number) == 0, job.output
        ports.append(int(environment_of(job)["TUNEPLANE_MAIN_PROCESS_PORT"]))
    assert min(ports) >= 20_000
    assert max(ports) < 32_768
    assert abs(ports[0] - ports[1]) >= 20


def test_a_taken_port_is_passed_over(job: Job) -> None:
    job.body(shows_environment(job))
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 20_000 + 700 % 600 * 20))
        taken.listen()
        assert job.run() == 0, job.output
        assert int(environment_of(job)["TUNEPLANE_MAIN_PROCESS_PORT"]) != taken.getsockname()[1]


def test_pyxis_gets_the_container_as_options_of_srun(job: Job, tmp_path: Path) -> None:
    root = tmp_path / "plain"
    for name in ("capsule", "slurm", "out", "spool"):
        (root / name).mkdir(parents=True)
    job.change(
        profile="enroot-pyxis",
        image=str(root / "image.sqsh"),
        capsule=root / "capsule",
        slurm_dir=root / "slurm",
        read_only=(root / "capsule",),
        writable=(root / "out",),
        parts=(Part(1, 2),),
    )
    job.body('test -z "${SLURM_JOB_ID:-}" && test "$NVIDIA_VISIBLE_DEVICES" = all && test "$GREETING" = hi\n')
    assert job.run(GREETING="hi", STAND_HELP="--container-mounts=SRC:DST") == 0, job.output
    options = job.srun_calls()[0]["options"]
    assert options["--container-image"] == job.request.image
    assert options["--container-mounts"] == ",".join(
        f"{root}/{name}:{root}/{name}:rbind+{mode}"
        for name, mode in (("capsule", "ro"), ("out", "rw"), ("spool", "rw"))
    )
    assert "GREETING" in options["--container-env"].split(",")


def test_pyxis_that_is_not_installed_is_named(job: Job) -> None:
    job.change(profile="enroot-pyxis", image="/image.sqsh", read_only=(), writable=(), capsule=Path("/c"))
    assert job.run(STAND_HELP="--container=BUNDLE") == 78
    assert "needs the pyxis plugin" in job.output


@in_both_shells
def test_oci_runs_a_bundle_of_its_own(job: Job) -> None:
    job.change(profile="oci", bundle={"root": {"path": "rootfs"}, "process": {"env": ["GREETING=image", "LANG=C"]}})
    job.body('test "$GREETING" = hi && test -z "${TUNEPLANE_IN_BUNDLE:-}"\n')
    assert job.run(GREETING="hi") == 0, job.output
    bundle = Path(job.srun_calls()[0]["options"]["--container"])
    assert bundle == job.slurm / "bundle"
    config = json.loads((bundle / "config.json").read_text())
    assert config["root"]["path"] == f"{job.request.image}/rootfs"
    assert config["process"]["env"] == ["LANG=C", "TUNEPLANE_IN_BUNDLE=1"]
    assert {
        "destination": str(job.root / "out"),
        "type": "none",
        "source": str(job.root / "out"),
        "options": ["rbind", "rw"],
    } in config["mounts"]


def test_a_node_that_ignores_the_bundle_is_refused(job: Job) -> None:
    job.change(profile="oci", bundle={"root": {"path": "rootfs"}, "process": {}})
    job.body("exit 0\n")
    assert job.run(STAND_NO_OCI="1") == 78
    assert "has no oci.conf" in job.output


def test_a_slurm_that_is_too_old_for_bundles_is_refused(job: Job) -> None:
    job.change(profile="oci", bundle={"root": {"path": "rootfs"}, "process": {}})
    assert job.run(STAND_VERSION="22.05.8") == 78
    assert "the profile oci needs Slurm 23.02 or newer: slurm-wlm 22.05.8 takes" in job.output


def test_only_whole_words_of_the_script_are_taken() -> None:
    assert parse_exit("") is None
    assert parse_exit("1 ") is None
    assert parse_exit("143 1796037487 2\n") is None
    assert (
        parse_exit("143 999999999999 1\n") is None
    )  # no time that a calendar knows: the run itself may have written it
    found = parse_exit("143 1796037487 1\n")
    assert found is not None
    assert (found.code, found.ended_at, found.told) == (143, 1796037487, True)
