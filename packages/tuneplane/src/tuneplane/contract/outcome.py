"""`outcome.json` and `artifacts.json`: written by the runner into the out dir, read by the engine and the server."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tuneplane.contract.base import Model, RunId, Sha256
from tuneplane.contract.words import ARTIFACTS_API_VERSION, OUTCOME_API_VERSION


class Outcome(Model):
    """The runner's word on how the attempt ended. Times are Unix seconds (UTC).

    `result`: `succeeded` = the trainer exited 0; `failed` = any other exit or the runner could not start it; `cancelled` = the
    runner was told to stop (SIGTERM) and the trainer ended after that.
    `reason` is a code of the reason table when the runner knows one (`package-corrupt`, `entrypoint-missing`, …), else None.
    """

    apiVersion: Literal["tuneplane/outcome/v1"] = OUTCOME_API_VERSION  # noqa: N815 - wire name
    job: RunId
    attempt: int = Field(ge=1)
    machine_rank: int = Field(ge=0)
    result: Literal["succeeded", "failed", "cancelled"]
    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None
    detail: str = Field(default="", max_length=4000)
    log_tail: str = Field(default="", max_length=16000)  # last lines of the trainer, for classification
    started_at: float | None = None
    finished_at: float
    spool_drained: bool = False
    lost: dict[str, int] = Field(default_factory=dict)  # stream -> records dropped by the spool's bound


class ArtifactFile(Model):
    """`path` is relative to the out dir, POSIX. `sha256` is None until hashed (the engine completes it after the GPUs are free)."""

    path: str
    size: int = Field(ge=0)
    sha256: Sha256 | None = None


class Checkpoint(Model):
    """A directory below the out dir. `complete` says whether a run can resume from it; `problem` says why not."""

    path: str
    step: int = Field(ge=0)
    complete: bool
    problem: str | None = None


class ArtifactIndex(Model):
    apiVersion: Literal["tuneplane/artifacts/v1"] = ARTIFACTS_API_VERSION  # noqa: N815 - wire name
    job: RunId
    attempt: int = Field(ge=1)
    files: list[ArtifactFile] = Field(default_factory=list)
    checkpoints: list[Checkpoint] = Field(default_factory=list)
    truncated: bool = False
