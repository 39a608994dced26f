from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane.contract.names import is_run_id
from tuneplane_server.domain.ids import created_at_ms, make_id

times = st.integers(0, (1 << 48) - 1)
randoms = st.binary(min_size=4, max_size=4)


@given(times, randoms)
def test_an_id_is_a_run_id_and_tells_when_it_was_made(when: int, random: bytes) -> None:
    identifier = make_id(when, random)
    assert is_run_id(identifier)
    assert created_at_ms(identifier) == when


@given(times, times, randoms, randoms)
def test_ids_sort_by_time(first: int, second: int, random_a: bytes, random_b: bytes) -> None:
    assert (make_id(first, random_a) < make_id(second, random_b)) == ((first, random_a) < (second, random_b))


@pytest.mark.parametrize(("when", "random"), [(-1, b"1234"), (1 << 48, b"1234"), (0, b"123")])
def test_what_fits_no_id_is_refused(when: int, random: bytes) -> None:
    with pytest.raises(ValueError, match="id"):
        make_id(when, random)


@pytest.mark.parametrize("text", ["", "0", "u" * 15, "u" * 16])
def test_text_that_is_no_id_has_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"id|substring"):
        created_at_ms(text)
