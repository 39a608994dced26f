"""NDJSON lines -> records, with msgspec: the hot path of ingest (the published schema is `tuneplane.contract.ingest`).

A batch is taken whole or refused whole; a refusal says the line, counted from 1.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tuneplane.contract.words import MAX_BATCH_RECORDS, MAX_LOG_CHUNK_BYTES, MAX_SAMPLE_BYTES
from tuneplane_server.domain import series_codec
from tuneplane_server.domain.cursors import FDS
from tuneplane_server.features.telemetry.records import (
    Batch,
    EventRecord,
    LogRecord,
    MetricRecord,
    Sample,
    SampleRecord,
)

_Attempt = Annotated[int, Meta(ge=1, le=2**31 - 1)]
_Rank = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Seq = Annotated[int, Meta(ge=1, le=2**62)]
_Step = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_FD_INDEX = {name: index for index, name in enumerate(FDS)}


class WireError(ValueError):
    """`kind`: `malformed`, `large` (a limit of the wire) or `foreign` (a record of another attempt). `line` from 1."""

    def __init__(self, kind: str, line: int, text: str) -> None:
        super().__init__(text)
        self.kind, self.line = kind, line


class _Record(msgspec.Struct, tag_field="stream", forbid_unknown_fields=True, gc=False):
    attempt: _Attempt
    rank: _Rank
    seq: _Seq


class _Log(_Record, tag="log"):
    time: float
    fd: Literal["stdout", "stderr", "runner"]
    data: str | None = None
    data64: str | None = None


class _Series(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    step: list[_Step]
    time: list[float]
    value: list[float | Literal["NaN", "Infinity", "-Infinity"]]
    epoch: list[float] | None = None


class _Metric(_Record, tag="metric"):
    series: dict[str, _Series]


class _SampleItem(msgspec.Struct, forbid_unknown_fields=True):
    """`data` stays as it came until its size is known: objects take many times the memory of the JSON that they are made of."""

    kind: Literal["completion", "preference", "conversation"]
    step: _Step
    time: float
    data: msgspec.Raw


class _Sample(_Record, tag="sample"):
    samples: list[_SampleItem]


class _Event(_Record, tag="event"):
    time: float
    event: Annotated[str, Meta(max_length=64)]
    data: msgspec.Raw = msgspec.Raw(b"{}")


# JSON may be written longer than it has to be, with \\u and spaces; so much longer than what is taken of it is read at all.
_LOOSE = 4
_object_decoder = msgspec.json.Decoder(dict[str, Any])
_decoder = msgspec.json.Decoder(_Log | _Metric | _Sample | _Event)


class _Heartbeat(msgspec.Struct, forbid_unknown_fields=True):
    attempt: _Attempt
    rank: _Rank
    state: Literal["preparing", "running", "draining"]
    time: float


_heartbeat_decoder = msgspec.json.Decoder(_Heartbeat)


def decode_batch(data: bytes, attempt: int) -> Batch:
    """The records of the NDJSON `data`, all of `attempt`. Raises `WireError`."""
    batch = Batch()
    lines = data.split(b"\n")
    if len(lines) > MAX_BATCH_RECORDS and sum(1 for line in lines if line.strip()) > MAX_BATCH_RECORDS:
        raise WireError("large", MAX_BATCH_RECORDS + 1, f"the batch has more than {MAX_BATCH_RECORDS} records")
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        try:
            record = _decoder.decode(line)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise WireError("malformed", number, _brief(error)) from None
        if record.attempt != attempt:
            raise WireError("foreign", number, f"the record is of attempt {record.attempt}, the token of {attempt}")
        _add(batch, record, number)
    return batch


def decode_heartbeat(data: bytes) -> tuple[int, int, str, float]:
    """(attempt, rank, state, time). Raises `WireError`."""
    try:
        beat = _heartbeat_decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise WireError("malformed", 1, _brief(error)) from None
    return beat.attempt, beat.rank, beat.state, beat.time


def _add(batch: Batch, record: _Log | _Metric | _Sample | _Event, line: int) -> None:
    if isinstance(record, _Log):
        raw = _log_bytes(record, line)
        batch.logs.append(LogRecord(record.rank, record.seq, _FD_INDEX[record.fd], record.time, raw))
    elif isinstance(record, _Metric):
        try:
            series = {
                name: series_codec.columns(one.step, one.time, one.value, one.epoch)
                for name, one in record.series.items()
            }
        except ValueError as error:
            raise WireError("malformed", line, f"series: {error}") from None
        batch.metrics.append(MetricRecord(record.rank, record.seq, series))
    elif isinstance(record, _Sample):
        samples = [Sample(one.kind, one.step, one.time, _object(one.data, line)[1]) for one in record.samples]
        batch.samples.append(SampleRecord(record.rank, record.seq, samples))
    else:
        data, _encoded = _object(record.data, line)
        name = record.event.replace("\0", "\ufffd")
        batch.events.append(EventRecord(record.rank, record.seq, record.time, name, data))


def _log_bytes(record: _Log, line: int) -> bytes:
    if (record.data is None) == (record.data64 is None):
        raise WireError("malformed", line, "a log record has either data or data64")
    if record.data is not None:
        raw = record.data.encode("utf-8")
    else:
        try:
            raw = base64.b64decode(record.data64 or "", validate=True)
        except binascii.Error:
            raise WireError("malformed", line, "data64 is not base64") from None
    if len(raw) > MAX_LOG_CHUNK_BYTES:
        raise WireError("large", line, f"a log record has {len(raw)} bytes; at most {MAX_LOG_CHUNK_BYTES} are taken")
    return raw


def _object(raw: msgspec.Raw, line: int) -> tuple[dict[str, Any], bytes]:
    """What `data` is, and its JSON as it is stored."""
    size = len(memoryview(raw))
    if size <= _LOOSE * MAX_SAMPLE_BYTES:
        try:
            value = _object_decoder.decode(raw)
            encoded = msgspec.json.encode(value)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise WireError("malformed", line, f"data: {_brief(error)}") from None
        size = len(encoded)
        if size <= MAX_SAMPLE_BYTES:
            return value, encoded
    raise WireError("large", line, f"data has {size} bytes of JSON; at most {MAX_SAMPLE_BYTES} are taken")


def _brief(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)[:300]
