"""The bodies of create calls, and what an engine's words mean: pure functions, compared with what engines said."""

from __future__ import annotations

import resource
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tuneplane_node.engine import LABEL_ATTEMPT, LABEL_JOB, LaunchRequest, Mount, Observed
from tuneplane_node.engine.runtimes.container_spec import docker_body, podman_body
from tuneplane_node.engine.runtimes.container_state import demultiplex, parse_time, read_state, start_error
from tuneplane_node.engine.runtimes.engine_api import EngineFacts, _choose_api, _read_facts

DOCKER = EngineFacts(
    podman=False, version="28.2.2", api="1.47", libpod="", rootless=False, selinux=False, nvidia=True, limits=True,
    live_restore=True, memory_bytes=64 << 30,
)  # fmt: skip
PODMAN = replace(DOCKER, podman=True, version="5.4.0", libpod="5.4.0")
REQUEST = LaunchRequest(
    name="tp-1",
    labels={LABEL_JOB: "j", LABEL_ATTEMPT: "1"},
    image="registry.example/trl:1",
    command=["sh", "/capsule/bootstrap.sh"],
    env={"A": "b=c"},
    mounts=[Mount("/data", "/data", read_only=True)],
    gpus=(2, 3),
    cpus=1.5,
    memory_bytes=8 << 30,
    workdir="/work",
)


def test_docker_is_asked_for_exactly_the_cards_of_the_job() -> None:
    (wanted,) = docker_body(REQUEST, DOCKER, None)["HostConfig"]["DeviceRequests"]
    assert wanted == {"Driver": "nvidia", "DeviceIDs": ["2", "3"], "Capabilities": [["gpu"]]}
    assert "DeviceRequests" not in docker_body(replace(REQUEST, gpus=()), DOCKER, None)["HostConfig"]


def test_podman_is_asked_for_exactly_the_cards_of_the_job() -> None:
    assert podman_body(REQUEST, PODMAN, None, init=True)["devices"] == [
        {"path": "nvidia.com/gpu=2"},
        {"path": "nvidia.com/gpu=3"},
    ]
    assert "devices" not in podman_body(replace(REQUEST, gpus=()), PODMAN, None, init=True)


def test_the_command_takes_the_place_of_the_entry_point() -> None:
    docker, podman = docker_body(REQUEST, DOCKER, None), podman_body(REQUEST, PODMAN, None, init=True)
    assert docker["Entrypoint"] == podman["entrypoint"] == ["sh", "/capsule/bootstrap.sh"]
    assert "Cmd" not in docker
    assert "command" not in podman


def test_nothing_is_limited_that_was_not_asked_to_be() -> None:
    free = replace(REQUEST, cpus=None, memory_bytes=None, workdir=None)
    host = docker_body(free, DOCKER, None)["HostConfig"]
    assert not {"NanoCpus", "Memory", "MemorySwap"} & set(host)
    assert host["ShmSize"] == 32 << 30  # half of the machine's memory
    limits = podman_body(free, PODMAN, None, init=True)["resource_limits"]
    assert set(limits) == {"pids"}


def test_selinux_does_not_keep_a_job_from_its_files() -> None:
    assert "label=disable" in docker_body(REQUEST, replace(DOCKER, selinux=True), None)["HostConfig"]["SecurityOpt"]
    assert podman_body(REQUEST, replace(PODMAN, selinux=True), None, init=True)["selinux_opts"] == ["disable"]
    assert docker_body(REQUEST, DOCKER, None)["HostConfig"]["SecurityOpt"] == ["no-new-privileges"]


def test_limits_of_processes_are_equal_pairs_within_our_own() -> None:
    for limit in docker_body(REQUEST, DOCKER, None)["HostConfig"]["Ulimits"]:
        assert limit["Soft"] == limit["Hard"] <= 20_000
    by_name = {limit["type"]: limit for limit in podman_body(REQUEST, PODMAN, None, init=True)["r_limits"]}
    assert set(by_name) == {"nofile", "nproc"}
    for name, kind in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        hard = resource.getrlimit(kind)[1]
        assert by_name[name]["soft"] == by_name[name]["hard"]
        assert hard == resource.RLIM_INFINITY or by_name[name]["hard"] <= hard


def test_the_user_is_named_only_when_one_was_chosen() -> None:
    assert docker_body(REQUEST, DOCKER, "1000:1000")["User"] == "1000:1000"
    assert podman_body(REQUEST, PODMAN, "1000:1000", init=True)["user"] == "1000:1000"
    assert "User" not in docker_body(REQUEST, DOCKER, None)
    assert "user" not in podman_body(REQUEST, PODMAN, None, init=True)


def state(**fields: Any) -> dict[str, Any]:
    return {
        "State": {"StartedAt": "0001-01-01T00:00:00Z", "FinishedAt": "0001-01-01T00:00:00Z", "ExitCode": 0, **fields}
    }


@pytest.mark.parametrize(("status", "expected"), [
    ("created", "created"), ("configured", "created"), ("initialized", "created"), ("running", "running"),
    ("paused", "running"), ("restarting", "running"), ("stopping", "running"), ("exited", "exited"),
    ("stopped", "exited"), ("dead", "exited"), ("removing", "exited"), ("", "unknown"), ("asleep", "unknown"),
])  # fmt: skip
def test_every_status_has_a_state_and_a_new_one_is_unknown(status: str, expected: str) -> None:
    assert read_state(state(Status=status), podman=False).state == expected


def test_the_end_of_a_container_is_read_whole() -> None:
    seen = read_state(
        state(
            Status="exited", ExitCode=137, OOMKilled=True, Error="",
            StartedAt="2026-11-29T18:02:18.739229123Z", FinishedAt="2026-11-29T20:02:19+02:00",
        ),
        podman=False,
    )  # fmt: skip
    assert seen == Observed(
        "exited",
        exit_code=137,
        signal=9,
        oom_killed=True,
        started_at=datetime(2026, 11, 29, 18, 2, 18, 739229, tzinfo=UTC),
        finished_at=datetime(2026, 11, 29, 18, 2, 19, tzinfo=UTC),
    )


def test_nothing_ends_before_it_starts() -> None:
    seen = read_state(
        state(Status="exited", StartedAt="2026-11-29T18:02:20.827806Z", FinishedAt="2026-11-29T18:02:20.827228Z"), False
    )
    assert seen.finished_at == seen.started_at


@pytest.mark.parametrize(("code", "podman", "expected"), [(137, True, None), (137, False, False), (1, True, False)])
def test_podman_s_no_is_no_answer(code: int, podman: bool, expected: bool | None) -> None:
    assert read_state(state(Status="exited", ExitCode=code, OOMKilled=False), podman).oom_killed is expected


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "", None, "yesterday", "2026-11-29"])
def test_a_time_that_is_none_is_none(text: str | None) -> None:
    assert parse_time(text) is None


@pytest.mark.parametrize(("message", "code"), [
    ('failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "x": executable file not found in $PATH: unknown', "command-not-found"),
    ('runc: runc create failed: unable to start container process: exec: "x": executable file not found in $PATH: OCI runtime attempted to invoke a command that was not found', "command-not-found"),
    ('could not select device driver "nvidia" with capabilities: [[gpu]]', "gpu-unsupported"),
    ("setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=0", "gpu-unsupported"),
    ('error running hook #0: nvidia-container-cli: initialization error: driver rpc error', "gpu-unsupported"),
    ('invalid mount config for type "bind": bind source path does not exist: /nosuch', "mount-missing"),
    ("statfs /nosuch: no such file or directory", "mount-missing"),
    ('workdir "/nosuch" does not exist on container b1e7059c263d', "workdir-missing"),
    ("something new", "engine-refused"),
])  # fmt: skip
def test_a_refused_start_is_told_by_its_cause(message: str, code: str) -> None:
    problem = start_error(message, "docker", "x", "/nosuch")
    assert problem.code == code
    assert problem.detail == message


def test_log_frames_become_plain_output_also_when_the_last_is_cut() -> None:
    frames = b"\x01\0\0\0\0\0\0\x04out\n" + b"\x02\0\0\0\0\0\0\x04err\n"
    assert demultiplex(frames) == b"out\nerr\n"
    assert demultiplex(frames[:-2]) == b"out\ner"
    assert demultiplex(frames + b"\x01\0\0") == b"out\nerr\n"
    assert demultiplex(b"") == b""


@pytest.mark.parametrize(("newest", "oldest", "chosen"), [
    ("1.41", "1.12", "1.41"), ("1.47", "1.24", "1.47"), ("1.52", "1.44", "1.47"), ("1.60", "1.50", "1.50"),
    ("1.9", "1.5", "1.9"),
])  # fmt: skip
def test_an_engine_is_spoken_to_in_an_api_both_know(newest: str, oldest: str, chosen: str) -> None:
    assert _choose_api(newest, oldest) == chosen


def test_what_an_engine_is_comes_from_its_own_words() -> None:
    docker = _read_facts(
        {"Version": "28.2.2", "ApiVersion": "1.50", "MinAPIVersion": "1.24", "Components": [{"Name": "Engine"}]},
        {"Runtimes": {"nvidia": {}, "runc": {}}, "SecurityOptions": ["name=seccomp", "name=rootless", "name=selinux"],
         "LiveRestoreEnabled": True, "MemTotal": 7, "MemoryLimit": True, "CpuCfsQuota": False},
    )  # fmt: skip
    assert docker == EngineFacts(
        podman=False, version="28.2.2", api="1.47", libpod="", rootless=True, selinux=True, nvidia=True, limits=False,
        live_restore=True, memory_bytes=7,
    )  # fmt: skip
    cdi = _read_facts({"ApiVersion": "1.50"}, {"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]})
    assert cdi.nvidia
    podman = _read_facts(
        {"Version": "5.4.0", "ApiVersion": "1.41", "Components": [{"Name": "Podman Engine", "Details": {"APIVersion": "5.4.0"}}]},
        {},
    )  # fmt: skip
    assert (podman.podman, podman.libpod, podman.nvidia) == (True, "5.4.0", False)
