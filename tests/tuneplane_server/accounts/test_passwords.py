"""What is kept of a password: the hashes of the other tests are quick ones, these are the product's."""

from __future__ import annotations

import pytest

from tests.tuneplane_server.harness import PASSWORD
from tests.tuneplane_server.hashing import quick_hasher, real_hasher
from tuneplane_server.features.accounts import passwords
from tuneplane_server.features.accounts.passwords import Passwords


@pytest.fixture(autouse=True)
def _as_the_product_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_hasher", real_hasher)


async def test_a_password_is_kept_as_argon2id_with_64_mib_and_three_passes() -> None:
    """Above the least that OWASP's cheat sheet on password storage asks for, and its second hash is another."""
    first = await Passwords().hash(PASSWORD)
    assert first.startswith("$argon2id$v=19$m=65536,t=3,p=1$")
    assert first != await Passwords().hash(PASSWORD)
    assert await Passwords().verify(first, PASSWORD)
    assert not await Passwords().verify(first, f"{PASSWORD} ")


async def test_a_hash_of_other_costs_is_still_known() -> None:
    assert await Passwords().verify(quick_hasher().hash(PASSWORD), PASSWORD)
