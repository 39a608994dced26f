"""Ingest wire (design §4): `POST /ingest/v1/jobs/{job}/batches`, NDJSON, gzip or zstd, one record per line.

Identity of a record is (attempt, rank, stream, seq); seq counts from 1 without gaps within its (attempt, rank, stream).
Numbers: JSON has no NaN or infinities, so a value is a number or one of the strings "NaN", "Infinity", "-Infinity".
The hot path of the server decodes with msgspec; these models are the published schema and the contract tests' oracle.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tuneplane.contract.base import Json, Model

Value = float | int | Literal["NaN", "Infinity", "-Infinity"]


class _Record(Model):
    attempt: int = Field(ge=1)
    rank: int = Field(ge=0)
    seq: int = Field(ge=1)


class LogRecord(_Record):
    """A chunk of output bytes, at most 64 KiB; `data` when it is valid UTF-8, else `data64` (base64). Time: Unix seconds at arrival in the runner."""

    stream: Literal["log"]
    time: float
    fd: Literal["stdout", "stderr", "runner"]
    data: str | None = None
    data64: str | None = None


class Series(Model):
    """Columns of equal length. `step` integers, `time` Unix seconds, `value` numbers (or the three strings)."""

    step: list[int]
    time: list[float]
    value: list[Value]
    epoch: list[float] | None = None


class MetricRecord(_Record):
    """`series`: canonical metric name -> columns."""

    stream: Literal["metric"]
    series: dict[str, Series]


class Sample(Model):
    """One sample shown to people. `kind` decides the keys of `data`:
    completion: prompt, completion, reward (number or null), rewards (name -> number);
    preference: prompt, chosen, rejected; conversation: messages[{role, content}].
    """

    kind: Literal["completion", "preference", "conversation"]
    step: int
    time: float
    data: dict[str, Json]


class SampleRecord(_Record):
    stream: Literal["sample"]
    samples: list[Sample]


class EventRecord(_Record):
    """Names: `trainer-started` {pid, command}, `hyperparams` {…}, `environment` {…}, `checkpoint` {path, step}, `warning` {code, text},
    `signal` {signal}, `trainer-exited` {exit_code, signal}, `outcome` {Outcome}, `gap` {stream, records}."""

    stream: Literal["event"]
    time: float
    event: str = Field(max_length=64)
    data: dict[str, Json] = Field(default_factory=dict)


Record = Annotated[LogRecord | MetricRecord | SampleRecord | EventRecord, Field(discriminator="stream")]


class IngestAnswer(Model):
    """`ack`: "attempt/rank/stream" -> highest seq up to which everything is stored. `duplicate` counts records seen before."""

    accepted: int
    duplicate: int
    ack: dict[str, int]


class Heartbeat(Model):
    """`POST …/heartbeat`: the runner is alive. `state`: what it is doing."""

    attempt: int = Field(ge=1)
    rank: int = Field(ge=0)
    state: Literal["preparing", "running", "draining"]
    time: float


class HeartbeatAnswer(Model):
    """`desired` lets a runner learn of a cancel that its executor could not deliver; `token` replaces the ingest token when present."""

    desired: Literal["run", "cancel"]
    token: str | None = None
