"""Every data version says the same in the end."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.tuneplane_server.executors.slurm.rest import bodies
from tests.tuneplane_server.executors.slurm.rest.bodies import Body, number
from tests.tuneplane_server.executors.slurm.rest.test_submitting import GOOD
from tuneplane_server.executors.slurm.rest.models import Component, Submission
from tuneplane_server.executors.slurm.rest.shapes import KNOWN, newest
from tuneplane_server.executors.slurm.rest.shapes.base import Shape, listed, release

SECONDS = datetime(2026, 11, 30, 11, 5, 8, tzinfo=UTC)
NEWER = [version for version in KNOWN if version != "v0.0.38"]


def shape(version: str) -> Shape:
    found = newest([version])
    assert found is not None
    assert found.version == version
    return found


def het(version: str, leader: int, offset: int) -> Body:
    return (
        {"het_job_id": leader, "het_job_offset": offset}
        if version == "v0.0.38"
        else {"het_job_id": number(leader), "het_job_offset": number(offset)}
    )


def test_the_newest_known_of_those_offered_is_taken() -> None:
    assert [
        found.version for found in (newest(["v0.0.36", "v0.0.38"]), newest(["v0.0.99", "v0.0.41", "v0.0.42"])) if found
    ] == [
        "v0.0.38",
        "v0.0.42",
    ]
    assert newest(["v0.0.36", "v0.0.39", "v0.0.99"]) is None
    chosen = newest(["v0.0.42", "v0.0.40"], known=["v0.0.40"])
    assert chosen is not None
    assert chosen.version == "v0.0.40"
    assert sorted(KNOWN, reverse=True) == list(KNOWN)


@pytest.mark.parametrize("version", KNOWN)
def test_a_running_job_is_the_same_in_every_version(version: str) -> None:
    job = shape(version).job(bodies.JOBS[version])
    assert (job.id, job.name, job.comment, job.user) == (1, "tp-a-1-0", "tuneplane a 1", "tester")
    assert (job.states, job.reason) == ({"RUNNING"}, "")
    assert (job.submitted_at, job.started_at, job.eligible_at) == (SECONDS, SECONDS, SECONDS)
    assert (job.ended_at, job.estimated_start, job.exit_code, job.signal) == (None, None, None, None)
    assert (job.nodes, job.nodes_asked, job.partition, job.directory) == (("n1", "n2"), 2, "main", "/tmp")
    assert (job.gpus_allocated, job.gpus_asked, job.time_limit_minutes, job.restarts) == (8, 8, 5, 0)
    assert (job.het_id, job.het_offset, job.leader_id, job.source) == (None, None, 1, "controller")


@pytest.mark.parametrize("version", KNOWN)
def test_a_component_knows_its_leader(version: str) -> None:
    job = shape(version).job(bodies.JOBS[version] | {"job_id": 6} | het(version, 4, 2))
    assert (job.id, job.het_id, job.het_offset, job.leader_id) == (6, 4, 2, 4)


@pytest.mark.parametrize("version", KNOWN)
def test_a_job_that_waits_has_an_estimate_and_nothing_else(version: str) -> None:
    state: Any = "PENDING" if version == "v0.0.38" else ["PENDING"]
    none: Body = {
        "nodes": "",
        "gres_detail": [],
        "tres_alloc_str": "",
        "job_resources": {},
        "state_reason": "Resources",
    }
    job = shape(version).job(bodies.JOBS[version] | none | {"job_state": state})
    assert (job.estimated_start, job.started_at, job.reason) == (SECONDS, None, "Resources")
    assert (job.gpus_allocated, job.gpus_asked, job.nodes) == (0, 8, ())


@pytest.mark.parametrize("version", NEWER)
@pytest.mark.parametrize(
    ("exit_code", "code", "signal"),
    [
        (bodies.end("SUCCESS", 0), 0, None),
        (bodies.end("ERROR", 7), 7, None),
        (bodies.end("SIGNALED", None, 15, "Terminated"), None, 15),
        (bodies.end("CORE_DUMPED", None, 11), None, 11),
    ],
)
def test_an_end_is_a_code_or_a_signal(version: str, exit_code: Body, code: int | None, signal: int | None) -> None:
    ended = {"job_state": ["FAILED"], "exit_code": exit_code, "state_reason": "NonZeroExitCode"}
    job = shape(version).job(bodies.JOBS[version] | ended)
    assert (job.exit_code, job.signal, job.reason) == (code, signal, "NonZeroExitCode")
    assert job.ended_at == datetime(2026, 11, 30, 11, 10, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "code", "signal"), [(0, 0, None), (768, 3, None), (15, None, 15), (9 | 0x80, None, 9)]
)
def test_the_wait_status_of_22_05_is_a_code_or_a_signal(status: int, code: int | None, signal: int | None) -> None:
    job = shape("v0.0.38").job(bodies.JOB_38 | {"job_state": "FAILED", "exit_code": status})
    assert (job.exit_code, job.signal) == (code, signal)


@pytest.mark.parametrize("version", KNOWN)
def test_a_job_that_was_cancelled_while_it_waited_never_started(version: str) -> None:
    state: Any = "CANCELLED" if version == "v0.0.38" else ["CANCELLED"]
    job = shape(version).job(bodies.JOBS[version] | {"job_state": state, "nodes": "", "gres_detail": []})
    assert (job.started_at, job.exit_code, job.signal) == (None, None, None)
    assert job.ended_at is not None


@pytest.mark.parametrize("version", KNOWN)
def test_cards_that_were_not_given_are_seen(version: str) -> None:
    """Versions from v0.0.40 on run a job with a misspelt request of cards without any."""
    none = {"gres_detail": [], "tres_per_node": "", "tres_alloc_str": "cpu=4,node=2"}
    job = shape(version).job(bodies.JOBS[version] | none)
    assert (job.gpus_asked, job.gpus_allocated) == (0, 0)
    asked = shape(version).job(bodies.JOBS[version] | none | {"tres_per_node": "gres/gpu:h200:4"})
    assert (asked.gpus_asked, asked.gpus_allocated) == (8, 0)


def test_cards_are_unknown_where_nothing_tells() -> None:
    over = {"job_state": ["COMPLETED"], "gres_detail": []}
    assert shape("v0.0.42").job(bodies.JOB_42 | over).gpus_allocated is None
    counted = over | {"tres_alloc_str": "cpu=4,node=2,gres/gpu=8,gres/gpu:h200=8"}
    assert shape("v0.0.42").job(bodies.JOB_42 | counted).gpus_allocated == 8
    hidden = {"gres_detail": [], "job_resources": None}  # a version that does not tell resources of a running job
    assert shape("v0.0.42").job(bodies.JOB_42 | hidden).gpus_allocated is None


def test_a_restart_is_counted() -> None:
    assert shape("v0.0.38").job(bodies.JOB_38 | {"restart_cnt": 2}).restarts == 2


@pytest.mark.parametrize("version", KNOWN)
@pytest.mark.parametrize(
    "body", [{}, {"job_id": None, "name": "a", "job_state": "RUNNING"}, {"job_id": "x", "name": "a", "job_state": []}]
)
def test_what_is_no_job_is_not_taken_for_one(version: str, body: Body) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        shape(version).job(body)


def test_the_accounting_says_what_it_knows() -> None:
    old, new = shape("v0.0.38").accounted(bodies.ACCOUNTED_38), shape("v0.0.42").accounted(bodies.ACCOUNTED_42)
    for job in (old, new):
        assert (job.id, job.name, job.user, job.states) == (2, "tp-a-1-0", "tester", {"FAILED"})
        assert (job.nodes, job.nodes_asked, job.gpus_allocated, job.gpus_asked) == (("n1", "n2"), 2, 8, 8)
        assert (job.time_limit_minutes, job.directory, job.source, job.het_id) == (5, "/tmp", "accounting", None)
        assert job.submitted_at == datetime(2026, 11, 30, 11, 23, 25, tzinfo=UTC)
        assert job.started_at == job.ended_at == datetime(2026, 11, 30, 11, 23, 26, tzinfo=UTC)
    assert (old.comment, new.comment) == ("", "tuneplane a 1")
    assert (old.exit_code, new.exit_code) == (None, 7)
    assert new.restarts == 1


def test_the_accounting_of_signals_and_of_jobs_that_never_started() -> None:
    killed = {"exit_code": {"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 9, "name": "Killed"}}}
    job = shape("v0.0.38").accounted(bodies.ACCOUNTED_38 | killed)
    assert (job.exit_code, job.signal) == (None, 9)
    waited = {"nodes": "None assigned", "state": {"current": ["CANCELLED"], "reason": "Resources"}}
    job = shape("v0.0.42").accounted(bodies.ACCOUNTED_42 | waited)
    assert (job.started_at, job.exit_code, job.states) == (None, None, {"CANCELLED"})
    het = {"het": {"job_id": 4, "job_offset": number(1)}}
    assert shape("v0.0.42").accounted(bodies.ACCOUNTED_42 | het).leader_id == 4


def test_a_search_of_the_accounting_is_independent_of_time_zones() -> None:
    since = datetime(2026, 11, 30, 13, 5, 8, tzinfo=timezone(timedelta(hours=2)))
    assert shape("v0.0.42").accounting_query("tp-a-1-0", since) == {
        "job_name": "tp-a-1-0",
        "start_time": "uts1796036708",
    }
    assert shape("v0.0.38").accounting_query(None, None) == {}


@pytest.mark.parametrize("version", KNOWN)
def test_a_node_is_the_same_in_every_version(version: str) -> None:
    node = shape(version).node(bodies.NODE_38 if version == "v0.0.38" else bodies.NODE_42)
    assert (node.name, node.address, node.architecture, node.states) == (
        "n1",
        "127.0.0.1",
        "x86_64",
        {"MIXED", "DRAIN"},
    )
    assert (node.cpus, node.memory_mb, node.cpus_used, node.memory_used_mb) == (16, 64000, 2, 1000)
    assert (node.gpus, node.gpus_used, node.partitions) == ({"h200": 8}, 4, ("main", "small"))


@pytest.mark.parametrize(
    ("said", "cpus"),
    [
        ({"effective_cpus": 14, "tres": "cpu=14,mem=64000M,billing=14,gres/gpu=8"}, 14),
        ({"effective_cpus": number(14)}, 14),
        ({"tres": "cpu=14,mem=64000M,billing=14"}, 14),  # 22.05
        ({"tres": "billing=3,gres/cpu=2,mem=1M"}, 16),
        ({"effective_cpus": 0, "tres": None}, 16),
        ({"cpus": 0}, 0),
    ],
)
@pytest.mark.parametrize("version", ["v0.0.38", "v0.0.42"])
def test_cpus_that_slurm_keeps_for_itself_are_not_a_node_s(version: str, said: Body, cpus: int) -> None:
    body = bodies.NODE_38 if version == "v0.0.38" else bodies.NODE_42
    assert shape(version).node(body | said).cpus == cpus


@pytest.mark.parametrize("version", KNOWN)
def test_a_partition_is_the_same_in_every_version(version: str) -> None:
    found = shape(version).partition(bodies.PARTITION_38 if version == "v0.0.38" else bodies.PARTITION_42)
    assert (found.name, found.states, found.nodes) == ("main", {"UP"}, ("n1", "n2", "n3", "n4"))
    assert (found.max_minutes, found.default_minutes, found.max_nodes) == (60, 10, None)
    assert found.default is (version == "v0.0.38")


def test_a_ping_tells_whether_a_controller_is_there() -> None:
    old, new = shape("v0.0.38"), shape("v0.0.45")
    assert old.controllers_up({"pings": [{"ping": "DOWN"}, {"ping": "UP"}]})
    assert not old.controllers_up({"pings": [{"ping": "DOWN"}]})
    assert new.controllers_up({"pings": [{"pinged": "UP", "responding": True}]})
    assert shape("v0.0.40").controllers_up({"pings": [{"pinged": "UP"}]})
    assert not new.controllers_up({"pings": [{"pinged": "DOWN", "responding": False}]})
    assert not new.controllers_up({})


def component(version: str, job: Submission) -> Body:
    return shape(version).submission(job)["job"]


def test_22_05_is_asked_in_plain_numbers() -> None:
    body = shape("v0.0.38").submission(GOOD)
    assert body["script"] == GOOD.script
    assert body["job"] == {
        "name": "tp-a-1-0", "comment": "tuneplane a 1", "nodes": 2, "tasks": 2, "tasks_per_node": 1, "gres": "gpu:h200:8",
        "signal": "TERM@60", "no_requeue": True, "current_working_directory": "/storage/a", "standard_output": "/storage/a/job.out",
        "open_mode": "append", "environment": {"PATH": "/usr/bin:/bin", "SECRET": "hush"},
    }  # fmt: skip


@pytest.mark.parametrize("version", NEWER)
def test_newer_ones_are_asked_in_wrapped_numbers_and_never_for_gres(version: str) -> None:
    gpu = Component(2, 8, "h200", 4, 1000, "gpu")
    asked = replace(GOOD, components=(gpu,), time_limit_minutes=30, nice=5, qos="high")
    body = shape(version).submission(asked)
    assert body["script"] == GOOD.script
    assert body["job"] == {
        "name": "tp-a-1-0", "comment": "tuneplane a 1", "nodes": "2", "tasks": 2, "tasks_per_node": 1, "cpus_per_task": 4,
        "memory_per_node": number(1000), "tres_per_node": "gres/gpu:h200:8", "time_limit": number(30), "nice": 5, "qos": "high",
        "partition": "gpu", "kill_warning_signal": "TERM", "kill_warning_delay": number(60), "requeue": False,
        "current_working_directory": "/storage/a", "standard_output": "/storage/a/job.out",
        "open_mode": ["APPEND"], "environment": ["PATH=/usr/bin:/bin", "SECRET=hush"],
    }  # fmt: skip


@pytest.mark.parametrize("version", KNOWN)
def test_no_card_is_asked_for_by_saying_nothing(version: str) -> None:
    job = component(version, replace(GOOD, components=(Component(1),)))
    assert not {"gres", "tres_per_node"} & set(job)
    any_kind = component(version, replace(GOOD, components=(Component(1, 2),)))
    assert any_kind["gres" if version == "v0.0.38" else "tres_per_node"] in ("gpu:2", "gres/gpu:2")


@pytest.mark.parametrize("version", KNOWN)
def test_components_are_a_list_with_one_script(version: str) -> None:
    body = shape(version).submission(replace(GOOD, components=(Component(1), Component(2, 8))))
    assert sorted(body) == ["jobs", "script"]
    assert [int(part["nodes"]) for part in body["jobs"]] == [1, 2]
    assert all(part["environment"] and part["current_working_directory"] and part["name"] for part in body["jobs"])


def test_slurms_own_version_is_found() -> None:
    assert release({"meta": {"Slurm": {"release": "22.05.8"}}}) == "22.05.8"
    assert release({"meta": {"slurm": {"release": "24.11.5"}}}) == "24.11.5"
    assert [release(body) for body in (None, {}, {"meta": None}, {"meta": {"slurm": 3}})] == [""] * 4


@pytest.mark.parametrize("body", [{}, {"jobs": None}, {"jobs": [3]}, {"jobs": {}}])
def test_an_answer_without_its_list_is_odd(body: Body) -> None:
    with pytest.raises(ValueError, match="jobs"):
        listed(body, "jobs")
