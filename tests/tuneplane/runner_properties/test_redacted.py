"""However the output is cut into reads: redacted piece by piece it is what it is redacted whole, and shows no secret."""

from __future__ import annotations

import base64
import itertools
from urllib.parse import quote

from hypothesis import given, settings
from hypothesis import strategies as st

from tuneplane.runner.output import Chunk
from tuneplane.runner.redaction import RedactedChunks, Redactor

# Few letters, so that beginnings of a secret stand everywhere, also in one another.
letters = st.text(alphabet="ab1/", max_size=12)
values = st.text(alphabet="ab1/+é", min_size=6, max_size=14)


@settings(deadline=None)
@given(values, st.lists(st.one_of(letters, st.none()), max_size=8), st.data())
def test_reads_of_any_size(value: str, parts: list[str | None], data: st.DataObject) -> None:
    redactor = Redactor({"S": value})
    output = "".join(value if part is None else part for part in parts).encode()
    chunks, shown, at = RedactedChunks(redactor), b"", 0
    while at < len(output):
        size = data.draw(st.integers(1, len(output) - at))
        shown += b"".join(chunk.data for chunk in chunks.feed([Chunk("stdout", 1.0, output[at : at + size])]))
        at += size
    shown += b"".join(chunk.data for chunk in chunks.release(9.0, all_of_it=True))
    assert value.strip().encode() not in shown
    assert shown == redactor.raw(output)


@settings(deadline=None)
@given(st.text(min_size=6, max_size=30), st.binary(max_size=8), st.binary(max_size=8))
def test_base64_urls_and_text_of_any_value(value: str, before: bytes, after: bytes) -> None:
    raw = value.strip().encode("utf-8", "surrogatepass")
    if len(value.strip()) < 9:
        return
    redactor = Redactor({"S": value})
    encoded = base64.b64encode(before + raw + after)
    assert b"[redacted:S]" in redactor.raw(encoded)
    assert quote(raw, safe="").encode() not in redactor.raw(quote(raw, safe="").encode())
    assert redactor.json({value.strip(): [value.strip()]}) == {"[redacted:S]": ["[redacted:S]"]}


@settings(deadline=None)
@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_output_without_a_secret_is_untouched(output: bytes, cuts: list[int]) -> None:
    chunks, shown = RedactedChunks(Redactor({"S": "never-in-there-0123456789"})), b""
    edges = [0, *sorted(min(cut, len(output)) for cut in cuts), len(output)]
    for start, end in itertools.pairwise(edges):
        shown += b"".join(chunk.data for chunk in chunks.feed([Chunk("stderr", 1.0, output[start:end])]))
    shown += b"".join(chunk.data for chunk in chunks.release(9.0, all_of_it=True))
    assert shown == output
