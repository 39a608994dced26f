"""What each answer of Slurm's leaves known. The bodies' errors are as 22.05.8 and 24.11.5 gave them."""

from __future__ import annotations

from typing import Any

import pytest

from tuneplane_server.executors.slurm.rest.outcomes import Problem, Verdict, problems, summary, verdict, warnings
from tuneplane_server.executors.slurm.rest.transport import Answer


def old(code: int, text: str, **more: str) -> dict[str, Any]:
    return {"errors": [{"error_number": code, "error": text, **more}]}


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, {"errors": [], "job_id": 7}, "fine"),
        (200, {"jobs": []}, "fine"),
        # 22.05: a submit's errors are `error_code`, a partition's `errno`.
        (500, {"errors": [{"error_code": 2000, "error": "Invalid partition name specified"}]}, "refused"),
        (500, old(2017, "Invalid job id specified", source="slurm_load_job") | {"jobs": []}, "not-found"),
        (500, old(-1, "Unspecified error", source="slurm_load_jobs"), "doubtful"),
        (500, {"errors": [{"error": "Unspecified error", "errno": -1}]}, "doubtful"),
        (500, {"errors": [{"error_code": 5005, "error": "Zero Bytes were transmitted or received"}]}, "doubtful"),
        (500, old(1800, "Unable to contact slurm controller (connect failure)"), "unreachable"),
        (200, old(7000, "Unable to connect to database", source="slurmdb_jobs_get"), "unreachable"),
        (200, old(9003, "Nothing found with query"), "refused"),
        # 22.05 tells why a job has to wait as an error beside its id: the job is there, and starts when it can.
        (200, old(2042, "Job is in held state") | {"job_id": 2}, "fine"),
        (200, old(2068, "Required node not available (down, drained or reserved)") | {"job_id": 1}, "fine"),
        (500, old(2014, "Requested node configuration is not available") | {"job_id": 0}, "refused"),
        (400, old(9000, "Query empty or not RFC7320 compliant"), "refused"),
        # 24.11
        (404, old(2017, "Invalid job id specified"), "not-found"),
        (511, old(1007, "Protocol authentication error"), "auth"),
        (511, {"errors": [], "partitions": []}, "auth"),
        (502, old(1800, "Unable to contact slurm controller (connect failure)"), "unreachable"),
        (502, {"errors": [], "partitions": []}, "lost"),
        (500, old(1, "Operation not permitted", source="slurm_kill_jobs()"), "lost"),  # a controller that is away
        (422, old(9207, "Data parser unable to parse invalid flag"), "refused"),
        (500, old(2012, "Pathname too long"), "refused"),
        (200, old(1802, "Unable to contact slurm controller (receive failure)"), "lost"),
        (200, old(1, "Operation not permitted"), "refused"),
        # Whatever else answers there, or dies while it does.
        (401, None, "auth"),
        (404, None, "gone"),
        (404, {"errors": []}, "gone"),
        (200, None, "lost"),
        (502, None, "lost"),
        (503, {}, "lost"),
        (400, {}, "refused"),
        (302, {}, "refused"),
        (200, {"errors": "no list"}, "fine"),
        (200, {"errors": ["words"]}, "refused"),
    ],
)
def test_every_answer_leaves_something_known(status: int, body: dict[str, Any] | None, expected: Verdict) -> None:
    assert verdict(Answer(status, body)) == expected


def test_errors_are_read_whatever_their_fields_are_called() -> None:
    body = {
        "errors": [
            {
                "error_number": 2000,
                "error": "Invalid partition name specified",
                "description": "Batch job submission failed",
            },
            {"error_code": 2017, "error": "same", "description": "same"},
            {"errno": -1, "error": "Unspecified error"},
            {"error_number": 0, "error": None},
            "words",
            3,
        ]
    }
    assert problems(body) == (
        Problem(2000, "Invalid partition name specified: Batch job submission failed"),
        Problem(2017, "same"),
        Problem(-1, "Unspecified error"),
        Problem(None, ""),
        Problem(None, "words"),
    )
    assert problems(None) == problems({}) == ()


def test_the_first_error_or_the_status_is_told() -> None:
    assert summary(Answer(500, {"errors": [{"error_code": 2000, "error": "x"}]})) == Problem(2000, "x")
    assert summary(Answer(502, None, "<html>Bad Gateway")) == Problem(None, "status 502: <html>Bad Gateway")
    assert len(summary(Answer(500, {"errors": ["x" * 9999]})).text) == 500


def test_warnings_are_told_with_their_place() -> None:
    body = {"warnings": [{"description": "Ignoring unknown field", "source": "#/job/gres/"}, 3]}
    assert warnings(body) == ("Ignoring unknown field: #/job/gres/",)
    assert warnings({}) == warnings(None) == ()
