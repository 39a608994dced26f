"""Values of secrets never reach the spool, however they are cut, encoded or carried."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.tuneplane.runner.conftest import MakeJob
from tests.tuneplane.runner.ingest_server import IngestServer
from tuneplane.runner.output import Chunk, OutputQueue
from tuneplane.runner.redaction import RedactedChunks, Redactor, redacted_chunks, secrets_of

SECRET = 'hf_Q7+x/Zk9&é"s'
MARK = b"[redacted:HF_TOKEN]"


def redactor(**more: str) -> Redactor:
    return Redactor({"HF_TOKEN": SECRET, **more})


def test_a_value_and_its_encodings_are_found() -> None:
    forms = [
        SECRET.encode(),
        quote(SECRET, safe="").encode(),
        json.dumps(SECRET)[1:-1].encode(),
        json.dumps(SECRET, ensure_ascii=False)[1:-1].encode(),
    ]
    for form in forms:
        assert redactor().raw(b"a " + form + b" b") == b"a " + MARK + b" b"


@pytest.mark.parametrize("before", ["", "u", "us", "user:", "Authorization: "])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_is_found_wherever_the_value_begins_in_it(before: str, encode: Callable[[bytes], bytes]) -> None:
    encoded = encode((before + SECRET + "!").encode())
    redacted = redactor().raw(b"Basic " + encoded + b"\n")
    assert MARK in redacted
    # At most the characters that the neighbours have a part in are left.
    assert len(redacted.replace(MARK, b"")) <= len(b"Basic \n") + -(-len(before) * 8 // 6) + 1 + 5


def feed(chunks: RedactedChunks, *parts: tuple[str, bytes]) -> bytes:
    return b"".join(chunk.data for chunk in chunks.feed([Chunk(fd, 1.0, data) for fd, data in parts]))


@pytest.mark.parametrize("cut", range(1, len(SECRET.encode())))
def test_a_value_cut_by_a_read_is_found(cut: int) -> None:
    chunks, raw = RedactedChunks(redactor()), SECRET.encode()
    assert feed(chunks, ("stdout", b"x " + raw[:cut])) == b"x "
    assert feed(chunks, ("stderr", b"err")) == b"err"
    assert feed(chunks, ("stdout", raw[cut:] + b" y")) == MARK + b" y"
    assert chunks.release(9.0, all_of_it=True) == []


def test_byte_by_byte() -> None:
    chunks = RedactedChunks(redactor())
    text = b"a " + SECRET.encode() * 2 + b" b hf_ c"
    found = b"".join(feed(chunks, ("stdout", text[at : at + 1])) for at in range(len(text)))
    assert found == b"a " + MARK * 2 + b" b hf_ c"


def test_a_beginning_that_goes_on_with_nothing_is_shown() -> None:
    chunks = RedactedChunks(redactor())
    assert feed(chunks, ("stdout", b"prompt> hf_")) == b"prompt> "
    assert chunks.release(2.0) == []
    assert [chunk.data for chunk in chunks.release(7.0)] == [b"hf_"]


def test_a_secret_that_is_the_beginning_of_another() -> None:
    chunks = RedactedChunks(Redactor({"A": "secret-abc", "B": "secret-abcdefgh"}))
    assert feed(chunks, ("stdout", b"x secret-abc")) == b"x "
    assert feed(chunks, ("stdout", b"defgh\nsecret-abc")) == b"[redacted:B]\n"
    assert feed(chunks, ("stdout", b" y secret-abc")) == b"[redacted:A] y "
    assert [chunk.data for chunk in chunks.release(9.0)] == [b"[redacted:A]"]
    overlapping = RedactedChunks(Redactor({"C": "secret-xyse"}))
    assert feed(overlapping, ("stdout", b"x secret-xyse")) == b"x [redacted:C]"


def test_what_is_too_short_is_left_and_named() -> None:
    found = redactor(PIN="1234", EMPTY_ONE="  ")
    assert found.too_short == ["EMPTY_ONE", "PIN"]
    assert found.raw(b"step 1234") == b"step 1234"


def test_json_values_are_redacted_in_depth_and_in_keys() -> None:
    value = {"a": [SECRET, {"b " + SECRET: 1, "n": 0.5, "none": None}]}
    assert redactor().json(value) == {
        "a": ["[redacted:HF_TOKEN]", {"b [redacted:HF_TOKEN]": 1, "n": 0.5, "none": None}]
    }


def test_a_text_that_the_reporter_cut_within_a_secret() -> None:
    assert redactor().text("key " + SECRET[:8] + "…") == "key [redacted]…"
    assert redactor().text("key " + SECRET[:3] + "…") == "key " + SECRET[:3] + "…"


def test_which_variables_are_secret() -> None:
    environ = {
        "TUNEPLANE_INGEST_TOKEN": "tpi_1_abcdef",
        "TUNEPLANE_ENV_DB": "named-by-the-job",
        "TUNEPLANE_ENV_WANDB_API_KEY": "the-users",
        "WANDB_API_KEY": "the-images",
        "TOKENIZERS_PARALLELISM": "false-enough",
        "TUNEPLANE_ENV_EOS_TOKEN": "<|endoftext|>",
        "GOOGLE_APPLICATION_CREDENTIALS": "/a/path/to/a/file",
        "HF_TOKEN": "",
    }
    assert secrets_of(environ, ["DB"]) == {
        "TUNEPLANE_INGEST_TOKEN": "tpi_1_abcdef",
        "DB": "named-by-the-job",
        "WANDB_API_KEY": "the-users",
        "WANDB_API_KEY (image)": "the-images",
    }


def test_the_tail_for_the_outcome_holds_none_and_no_rest_of_one() -> None:
    queue = OutputQueue(redact=partial(redacted_chunks, redactor()))
    queue.put("stdout", SECRET.encode())
    for _ in range(20_000):
        queue.put("stdout", b" line of thirty characters ok\n")
        queue.take()
    queue.put("stdout", b"at the end " + SECRET.encode())
    tail = queue.tail()
    assert SECRET not in tail
    assert tail.endswith("at the end [redacted:HF_TOKEN]")


def test_the_tail_puts_each_stream_together_by_itself() -> None:
    queue = OutputQueue(redact=partial(redacted_chunks, redactor()))
    raw = SECRET.encode()
    for fd, data in (
        ("stdout", b"a " + raw[:7]),
        ("stderr", b"err\n"),
        ("stdout", raw[7:] + b"\n"),
        ("stderr", b"b\n"),
    ):
        queue.put(fd, data)
    assert queue.tail() == "a err\n[redacted:HF_TOKEN]\nb\n"


def test_the_tail_keeps_the_only_line_of_a_stream_that_was_cut_at_a_line() -> None:
    queue = OutputQueue(redact=partial(redacted_chunks, redactor()))
    queue.put("stderr", b"early\n")
    for _ in range(20_000):
        queue.put("stdout", b" line of thirty characters ok\n")
        queue.take()
    queue.put("stderr", b"the cause\n")
    assert queue.tail().endswith("the cause\n")


TRAIN = """\
import os, sys, time
from tuneplane.report import finish, init, log, log_event, log_samples
secret, token = os.environ["WANDB_API_KEY"], os.environ["TUNEPLANE_INGEST_TOKEN"]
print("out", secret, token, flush=True)
print("err", secret, file=sys.stderr, flush=True)
sys.stdout.write(secret[:7]); sys.stdout.flush(); time.sleep(0.3)
print(secret[7:], flush=True)
init(config={"command": "curl -H " + secret})
log({"loss/" + secret: 1.0}, step=1)
log_samples([{"prompt": secret, "completion": "x " + token}], step=1)
log_event("warning", {"code": "c", "text": secret})
finish()
print("last", secret)
"""


def test_nothing_of_a_run_shows_a_secret(make_job: MakeJob, console: IngestServer) -> None:
    secret = 'tr0ub4dor&3"é'
    job = make_job('"$TUNEPLANE_PYTHON" train.py', {"train.py": TRAIN})
    job.run(TUNEPLANE_ENV_WANDB_API_KEY=secret)
    spooled = json.dumps(list(console.stored.values()), default=str, ensure_ascii=False)
    written = "".join(path.read_text() for path in Path(job.out).glob("*.json"))
    spool = b"".join(path.read_bytes() for path in job.spool.rglob("*") if path.is_file())
    for value in (secret, json.dumps(secret)[1:-1], "token-of-this-attempt"):
        assert value not in spooled + written
        assert value.encode() not in spool
    mark = "[redacted:WANDB_API_KEY]"
    assert console.text("stdout").decode().splitlines() == [
        f"out {mark} [redacted:TUNEPLANE_INGEST_TOKEN]",
        mark,
        f"last {mark}",
    ]
    assert f"raw/loss/{mark}" in console.records("metric")[0]["series"]
    assert console.records("sample")[0]["samples"][0]["data"]["prompt"] == mark
    assert console.events("hyperparams") == [{"command": f"curl -H {mark}"}]
    assert mark in job.outcome()["log_tail"]


def test_a_secret_too_short_to_be_redacted_is_named(make_job: MakeJob, console: IngestServer) -> None:
    job = make_job("echo 1234")
    job.run(TUNEPLANE_ENV_DB_PASSWORD="1234")
    (warning,) = [data for data in console.events("warning") if data["code"] == "secret-too-short"]
    assert "DB_PASSWORD" in warning["text"]
    assert b"1234" in console.text("stdout")
