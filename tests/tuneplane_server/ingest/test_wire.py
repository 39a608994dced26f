"""Decoding of NDJSON against the published contract: both take and both refuse the same, and no number changes."""

from __future__ import annotations

import base64
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tests.tuneplane_server.ingest.wire_build import event, log, metric, ndjson, sample
from tuneplane.contract.ingest import Heartbeat, Record
from tuneplane.contract.words import MAX_BATCH_RECORDS, MAX_LOG_CHUNK_BYTES, MAX_SAMPLE_BYTES
from tuneplane_server.features.ingest.wire import WireError, decode_batch, decode_heartbeat

oracle = TypeAdapter(Record)
numbers = st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False)
values = numbers | st.sampled_from(["NaN", "Infinity", "-Infinity"])
text = st.text(st.characters(codec="utf-8"), max_size=30)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(text, json_values, max_size=4)
identities = st.tuples(st.integers(0, 9), st.integers(1, 1000))


def decoded(*lines):
    return decode_batch(ndjson(*lines), 1)


@given(identities, st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), numbers, values), max_size=8))
def test_metric_columns_are_the_numbers_that_were_sent(identity, points):
    rank, seq = identity
    series = {"step": [p[0] for p in points], "time": [p[1] for p in points], "value": [p[2] for p in points]}
    line = {"attempt": 1, "rank": rank, "stream": "metric", "seq": seq, "series": {"a": series}}
    oracle.validate_python(json.loads(json.dumps(line)))
    found = decoded(line).metrics[0]
    assert (found.rank, found.seq) == (rank, seq)
    columns = found.series["a"]
    assert columns.step.tolist() == series["step"]
    assert columns.time.tolist() == [float(one) for one in series["time"]]
    wanted = [float(one) for one in series["value"]]
    assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(columns.value, wanted, strict=True))


@given(identities, text, st.sampled_from(["stdout", "stderr", "runner"]))
def test_log_text_and_bytes_are_what_was_sent(identity, words, fd):
    rank, seq = identity
    line = log(seq, words, rank=rank, fd=fd)
    oracle.validate_python(line)
    assert decoded(line).logs[0].data == words.encode()
    raw = words.encode("utf-16")
    other = log(seq, words, data64=base64.b64encode(raw).decode(), data=None)
    oracle.validate_python(other)
    assert decoded(other).logs[0].data == raw


@given(identities, objects)
def test_samples_and_events_keep_their_json(identity, data):
    rank, seq = identity
    lines = (sample(seq, data, rank=rank), event(seq, "anything", data, rank=rank))
    for line in lines:
        oracle.validate_python(line)
    batch = decoded(*lines)
    assert json.loads(batch.samples[0].samples[0].data) == data
    assert batch.events[0].data == data


good = {
    "log": log(1, "x"),
    "metric": metric(1, [1.0]),
    "sample": sample(1, {"completion": "x"}),
    "event": event(1, "warning", {"code": "x"}),
}


def without(line, key):
    return {name: value for name, value in line.items() if name != key}


def spoiled():
    for name, line in good.items():
        for key in ("attempt", "rank", "stream", "seq"):
            yield f"{name} without {key}", without(line, key)
            yield f"{name} with {key} as text", line | {key: "one"}
        yield f"{name} with a key too many", line | {"extra": 1}
        yield f"{name} with seq 0", line | {"seq": 0}
        yield f"{name} with a negative rank", line | {"rank": -1}
        yield f"{name} of attempt 0", line | {"attempt": 0}
    yield "unknown stream", good["log"] | {"stream": "video"}
    yield "unknown fd", good["log"] | {"fd": "stdin"}
    yield "no time", without(good["log"], "time")
    yield "step as a fraction", metric(1, [1.0]) | {"series": {"a": {"step": [1.5], "time": [1], "value": [1]}}}
    yield "value as another word", metric(1, ["nan"])
    yield "value as null", metric(1, [None])
    yield "series without step", metric(1, [1.0]) | {"series": {"a": {"time": [1], "value": [1]}}}
    yield (
        "series with a key too many",
        metric(1, [1.0]) | {"series": {"a": {"step": [], "time": [], "value": [], "unit": "s"}}},
    )
    yield "unknown kind of sample", {**good["sample"], "samples": [{**good["sample"]["samples"][0], "kind": "image"}]}
    yield "sample data as a list", {**good["sample"], "samples": [{**good["sample"]["samples"][0], "data": []}]}
    yield "event name too long", event(1, "x" * 65)
    yield "event data as text", event(1, "x") | {"data": "x"}


@pytest.mark.parametrize(("what", "line"), list(spoiled()), ids=lambda value: value if isinstance(value, str) else "")
def test_what_the_contract_refuses_is_refused_with_its_line(what, line):
    with pytest.raises(ValidationError):
        oracle.validate_python(line)
    with pytest.raises(WireError) as refusal:
        decoded(good["log"], line)
    assert (refusal.value.kind, refusal.value.line) == ("malformed", 2)


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"attempt":1,"rank":0,"stream":"event","seq":1,"time":NaN,"event":"x","data":{}}',
        b'{"attempt":1,"rank":0,"stream":"event","seq":1,"time":1e999,"event":"x","data":{}}',
        b'{"attempt":1,"rank":0,"stream":"event","seq":1,"time":1,"event":"x","data":{"a":"\\ud800"}}',
        b'{"attempt":1,"rank":0,"stream":"event","seq":1,"time":1,"event":"x","data":{"a":'
        + b"[" * 100_000
        + b"]" * 100_000
        + b"}}",
        b'{"attempt":1,"rank":0,"stream":"log","seq":1,"time":1,"fd":"stdout"}',
        b'{"attempt":1,"rank":0,"stream":"log","seq":1,"time":1,"fd":"stdout","data":"a","data64":"YQ=="}',
        b'{"attempt":1,"rank":0,"stream":"log","seq":1,"time":1,"fd":"stdout","data64":"not base64!"}',
        b'{"attempt":1,"rank":0,"stream":"log","seq":99999999999999999999,"time":1,"fd":"stdout","data":"a"}',
        b'{"attempt":1,"rank":0,"stream":"metric","seq":1,"series":{"a":{"step":[1,2],"time":[1],"value":[1]}}}',
        b'{"attempt":1,"rank":0,"stream":"metric","seq":1,"series":{"a":{"step":[9223372036854775808],"time":[1],"value":[1]}}}',
    ],
    ids=lambda raw: raw[:60].decode("latin-1"),
)
def test_what_is_no_record_at_all_is_refused(raw):
    with pytest.raises(WireError) as refusal:
        decode_batch(ndjson(good["log"]) + b"\n  \n" + raw, 1)
    assert (refusal.value.kind, refusal.value.line) == ("malformed", 4)
    assert len(str(refusal.value)) <= 320


@pytest.mark.parametrize(
    "lines",
    [
        [log(seq, "x") for seq in range(1, MAX_BATCH_RECORDS + 2)],
        [log(1, "x" * (MAX_LOG_CHUNK_BYTES + 1))],
        [log(1, "字" * (MAX_LOG_CHUNK_BYTES // 3 + 1))],
        [sample(1, {"completion": "x" * MAX_SAMPLE_BYTES})],
        [event(1, "hyperparams", {"x": "x" * MAX_SAMPLE_BYTES})],
    ],
    ids=["records", "log bytes", "log bytes in three", "sample bytes", "event bytes"],
)
def test_every_limit_of_the_wire(lines):
    with pytest.raises(WireError) as refusal:
        decoded(*lines)
    assert refusal.value.kind == "large"


def test_what_is_just_within_the_limits_is_taken():
    room = MAX_SAMPLE_BYTES - len('{"completion":""}')
    batch = decoded(*(log(seq, "x") for seq in range(1, MAX_BATCH_RECORDS)), sample(1, {"completion": "x" * room}))
    assert len(batch) == MAX_BATCH_RECORDS
    assert len(decoded(log(1, "x" * MAX_LOG_CHUNK_BYTES)).logs[0].data) == MAX_LOG_CHUNK_BYTES


def test_a_record_of_another_attempt_refuses_the_batch():
    with pytest.raises(WireError) as refusal:
        decoded(log(1, "x"), log(2, "x", attempt=2))
    assert (refusal.value.kind, refusal.value.line) == ("foreign", 2)


def test_a_nul_in_an_events_name_does_not_reach_the_database():
    assert decoded(event(1, "a\0b")).events[0].event == "a\ufffdb"


@given(st.integers(1, 9), st.integers(0, 9), st.sampled_from(["preparing", "running", "draining"]), numbers)
def test_heartbeats_are_the_contracts(attempt, rank, state, time):
    beat = {"attempt": attempt, "rank": rank, "state": state, "time": time}
    Heartbeat.model_validate(beat)
    assert decode_heartbeat(json.dumps(beat).encode()) == (attempt, rank, state, float(time))


@pytest.mark.parametrize("beat", [{}, {"attempt": 1, "rank": 0, "state": "asleep", "time": 1}, []])
def test_other_heartbeats_are_refused(beat):
    with pytest.raises(WireError):
        decode_heartbeat(json.dumps(beat).encode())
