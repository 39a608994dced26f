"""What is refused before anything is sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuneplane_server.executors.slurm.rest.models import Component, SlurmError, Submission
from tuneplane_server.executors.slurm.rest.submitting import MAX_SCRIPT, check

GOOD = Submission(
    name="tp-a-1-0",
    comment="tuneplane a 1",
    script="#!/bin/sh\nexit 0\n",
    components=(Component(2, 8, "h200"),),
    environment={"PATH": "/usr/bin:/bin", "SECRET": "hush"},
    directory="/storage/a",
    output="/storage/a/job.out",
    warning=("TERM", 60),
)


def test_a_good_one_passes() -> None:
    check(GOOD)
    check(replace(GOOD, warning=None))


@pytest.mark.parametrize(
    "more",
    [
        {"script": "exit 0\n"},
        {"script": "#!/bin/sh\r\nexit 0\r\n"},
        {"script": "#!/bin/sh\n\0"},
        {"script": "#!/bin/sh\n" + "#" * MAX_SCRIPT},
        {"script": "#!/bin/sh\n" + "ü" * (MAX_SCRIPT // 2)},
        {"directory": "storage"},
        {"directory": ""},
        {"environment": {}},
        {"environment": {"A=B": "hush"}},
        {"environment": {"": "hush"}},
        {"environment": {"A": "hu\0sh"}},
        {"components": ()},
        {"components": (Component(0),)},
        {"components": (Component(1, -1),)},
        {"components": (Component(1),) * 129},
        {"warning": ("SIGTERM", 60)},
        {"warning": ("KILL", 60)},
        {"warning": ("TERM", 0)},
        {"warning": ("TERM", 70000)},
    ],
)
def test_what_slurm_would_take_amiss_is_refused(more: dict[str, object]) -> None:
    with pytest.raises(SlurmError) as refusal:
        check(replace(GOOD, **more))
    assert (refusal.value.kind, refusal.value.code) == ("refused", None)
    assert "hush" not in str(refusal.value)


def test_secrets_are_not_shown() -> None:
    assert "hush" not in repr(GOOD)
    assert "exit 0" not in repr(GOOD)
