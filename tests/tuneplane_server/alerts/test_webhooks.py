"""Webhooks from the rule to a real receiver: signed as the standard says, tried again, logged, and never twice for two consoles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from tests.tuneplane_server.alerts.receiver import Receiver
from tests.tuneplane_server.alerts.test_firing import KL, look, send, set_rule
from tests.tuneplane_server.harness import Api, Harness
from tuneplane_server.domain.webhooks import MAX_TRIES
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.alerts.tables import WebhookRow
from tuneplane_server.features.alerts.webhooks import MAX_PENDING
from tuneplane_server.features.audit.tables import AuditRow

PLACE = "/api/v1/projects/ada/lab/webhooks"


async def add(api: Api, principal: Principal, url: str, **fields: Any) -> tuple[str, str]:
    """(id, secret) of a new webhook."""
    answer = await (await api.client(principal)).post(PLACE, json={"url": url, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()["webhook"]["id"], answer.json()["secret"]


async def deliver(harness: Harness, *, seconds: float = 0.0) -> None:
    """One round of the deliverer after so many seconds."""
    await look(harness, minutes=seconds / 60, role="deliverer")


async def log(api: Api, principal: Principal, webhook_id: str) -> list[dict[str, Any]]:
    client = await api.client(principal)
    items: list[dict[str, Any]] = (await client.get(f"{PLACE}/{webhook_id}/deliveries")).json()["items"]
    return items


def real_time(harness: Harness) -> None:
    """The library of the standard refuses a timestamp that is not of now."""
    from datetime import UTC, datetime

    harness.time.now = datetime.now(UTC)


async def test_an_alert_reaches_a_real_receiver_signed_as_the_standard_says(
    api: Api, ada: Principal, receiver: Receiver
) -> None:
    harness = api.harness
    real_time(harness)
    job_id = await harness.running_job(ada)
    _hook, secret = await add(api, ada, receiver.url("/hook?team=a"), description="team chat")
    await set_rule(harness, ada, "kl", kind="metric-above", metric=KL, threshold=10, minutes=0)
    await send(harness, job_id, 1, 12.0)
    await look(harness)
    await deliver(harness)
    await send(harness, job_id, 2, 1.0)
    await look(harness)
    await deliver(harness)
    await deliver(harness)
    fired, resolved = receiver.received
    message = fired.verified(secret)
    assert (message["type"], fired.path, fired.headers["content-type"]) == (
        "alert.fired", "/hook?team=a", "application/json",
    )  # fmt: skip
    assert message["data"]["text"] == f"{KL} is 12 at step 1, above 10"
    job = message["data"]["job"]
    assert (job["id"], job["project"], job["url"].endswith(f"/jobs/{job_id}")) == (job_id, "lab", True)
    assert resolved.verified(secret)["type"] == "alert.resolved"
    assert fired.headers["webhook-id"] != resolved.headers["webhook-id"]


async def test_the_end_of_a_run_is_sent_to_who_asked_for_it(api: Api, ada: Principal, receiver: Receiver) -> None:
    harness = api.harness
    real_time(harness)
    job_id = await harness.running_job(ada)
    _all, first = await add(api, ada, receiver.url("/all"))
    await add(api, ada, receiver.url("/alerts"), events=["alert.fired"])
    await harness.write_outcome(job_id, "failed")
    harness.scripted.containers.clear()
    await harness.round(5)
    assert [(call.path, call.verified(first)["type"]) for call in receiver.received] == [("/all", "job.failed")]


async def test_what_fails_is_tried_again_with_growing_rests_and_given_up(
    api: Api, ada: Principal, receiver: Receiver
) -> None:
    harness = api.harness
    await harness.submit(ada)
    hook, _secret = await add(api, ada, receiver.url())
    client = await api.client(ada)
    assert (await client.post(f"{PLACE}/{hook}/test")).status_code == 202
    receiver.answers += [(500, {}, b"broken")] * MAX_TRIES
    await deliver(harness)
    await deliver(harness)
    assert len(receiver.received) == 1, "it rests"
    await deliver(harness, seconds=6)
    assert len(receiver.received) == 2
    for _time in range(MAX_TRIES + 3):
        await deliver(harness, seconds=15 * 3600)
    assert len(receiver.received) == MAX_TRIES
    (entry,) = await log(api, ada, hook)
    assert (entry["state"], len(entry["tries"]), entry["tries"][0]["status"]) == ("failed", MAX_TRIES, 500)
    assert len({call.headers["webhook-id"] for call in receiver.received}) == 1
    client = await api.client(ada)  # days have passed
    again = await client.post(f"{PLACE}/{hook}/deliveries/{entry['id']}/redeliver")
    assert (again.status_code, again.json()["message_id"]) == (202, entry["message_id"])
    await deliver(harness)
    assert [item["state"] for item in await log(api, ada, hook)] == ["delivered", "failed"]
    assert receiver.received[-1].body == receiver.received[0].body


async def test_a_receiver_may_ask_for_a_longer_rest_and_one_that_is_gone_is_left_alone(
    api: Api, ada: Principal, receiver: Receiver
) -> None:
    harness = api.harness
    await harness.submit(ada)
    hook, _secret = await add(api, ada, receiver.url())
    client = await api.client(ada)
    await client.post(f"{PLACE}/{hook}/test")
    receiver.answers += [(503, {"retry-after": "3600"}, b""), (410, {}, b"")]
    await deliver(harness)
    await deliver(harness, seconds=1800)
    assert len(receiver.received) == 1
    await deliver(harness, seconds=1900)
    assert len(receiver.received) == 2
    (shown,) = (await client.get(PLACE)).json()["items"]
    assert (shown["enabled"], shown["disabled_why"]) == (False, "410 Gone")
    await harness.running_job(ada)
    assert (await client.post(f"{PLACE}/{hook}/enable")).json()["enabled"] is True


async def test_one_webhook_with_much_to_get_is_not_in_the_way_of_the_others(
    api: Api, ada: Principal, receiver: Receiver
) -> None:
    harness = api.harness
    await harness.submit(ada)
    busy, _secret = await add(api, ada, receiver.url("/busy"))
    other, _secret = await add(api, ada, receiver.url("/other"))
    client = await api.client(ada)
    answers = [await client.post(f"{PLACE}/{busy}/test") for _time in range(MAX_PENDING + 1)]
    assert [answer.status_code for answer in answers] == [202] * MAX_PENDING + [409]
    await client.post(f"{PLACE}/{other}/test")
    await deliver(harness)
    assert sorted(call.path for call in receiver.received) == ["/busy", "/busy", "/other"]
    await deliver(harness)
    assert len(receiver.received) == 5


async def test_two_consoles_send_one_delivery_once(api: Api, ada: Principal, receiver: Receiver) -> None:
    harness = api.harness
    await harness.submit(ada)
    hook, _secret = await add(api, ada, receiver.url())
    await (await api.client(ada)).post(f"{PLACE}/{hook}/test")
    other = harness.replica()
    await harness.loop("deliverer").tick()
    await other.loop("deliverer").tick()
    await harness.loop("deliverer").idle()
    await other.loop("deliverer").idle()
    assert len(receiver.received) == 1


async def test_a_crash_between_the_answer_and_its_note_sends_it_again_under_the_same_id(
    api: Api, ada: Principal, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = api.harness
    await harness.submit(ada)
    hook, _secret = await add(api, ada, receiver.url())
    await (await api.client(ada)).post(f"{PLACE}/{hook}/test")

    async def die(*_args: object) -> None:
        raise RuntimeError("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(harness.services.webhooks, "note", die)
        await deliver(harness)
    await harness.restart()
    await deliver(harness, seconds=5)
    assert [call.headers["webhook-id"] for call in receiver.received] == [
        receiver.received[0].headers["webhook-id"]
    ] * 2
    (entry,) = await log(api, ada, hook)
    assert entry["state"] == "delivered"


async def test_the_secret_is_shown_once_and_lies_sealed(api: Api, ada: Principal, receiver: Receiver) -> None:
    harness = api.harness
    await harness.submit(ada)
    hook, secret = await add(api, ada, receiver.url())
    assert secret.startswith("whsec_")
    client = await api.client(ada)
    assert secret not in (await client.get(PLACE)).text
    async with harness.services.database.session() as session:
        row = await session.get(WebhookRow, hook)
        audit = [entry.action for entry in await session.scalars(select(AuditRow))]
    assert row is not None
    assert secret.removeprefix("whsec_").encode() not in row.secret
    key = harness.services.settings.state_dir / "secrets.key"
    assert (key.stat().st_mode & 0o777, "webhook.add" in audit) == (0o600, True)
    key.unlink()  # another key: the secret is lost, and said so instead of being sent unsigned
    del harness.services.__dict__["sealer"], harness.services.__dict__["webhooks"]
    harness.roles = __import__("tuneplane_server.background.wiring", fromlist=["build_roles"]).build_roles(
        harness.services
    )
    await client.post(f"{PLACE}/{hook}/test")
    await deliver(harness)
    (entry,) = await log(api, ada, hook)
    assert (entry["state"], entry["tries"][0]["error"], receiver.received) == (
        "failed", "sealed with another key, or damaged", [],
    )  # fmt: skip


async def test_a_removed_webhook_is_called_no_more(api: Api, ada: Principal, receiver: Receiver) -> None:
    harness = api.harness
    await harness.submit(ada)
    hook, _secret = await add(api, ada, receiver.url())
    client = await api.client(ada)
    await client.post(f"{PLACE}/{hook}/test")
    assert (await client.delete(f"{PLACE}/{hook}")).status_code == 204
    await deliver(harness)
    assert (receiver.received, (await client.get(f"{PLACE}/{hook}/deliveries")).status_code) == ([], 404)


@pytest.mark.parametrize(("url", "word"), [
    ("https://10.0.0.5/x", "private"),
    ("https://localhost/x", "private"),
    ("https://[::1]/x", "private"),
    ("https://169.254.169.254/latest/meta-data", "private"),
    ("http://hooks.example.org/x", "plain http"),
    ("https://ada:word@hooks.example.org/x", "password"),
    ("gopher://hooks.example.org", "no http"),
])  # fmt: skip
async def test_addresses_that_are_refused_at_once(site: Api, url: str, word: str) -> None:
    ada = await site.harness.user("ada")
    await site.harness.bring_package(ada)
    await site.harness.submit(ada)
    answer = await (await site.client(ada)).post(PLACE, json={"url": url})
    assert (answer.status_code, answer.json()["refusals"][0]["field"]) == (422, "url")
    assert word in answer.json()["detail"]


async def test_another_s_webhooks_do_not_exist_and_their_number_is_bounded(
    site: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuneplane_server.features.alerts.webhooks.MAX_WEBHOOKS", 1)
    ada, eve = await site.harness.user("ada"), await site.harness.user("eve")
    for principal in (ada, eve):
        await site.harness.bring_package(principal)
        await site.harness.submit(principal)
    mine, theirs = await site.client(ada), await site.client(eve)
    made = await mine.post(PLACE, json={"url": "https://hooks.example.org/x"})
    hook = made.json()["webhook"]["id"]
    assert (await mine.post(PLACE, json={"url": "https://hooks.example.org/x"})).status_code == 409
    assert (await theirs.get(PLACE)).status_code == 404
    assert (await theirs.post(f"/api/v1/projects/eve/lab/webhooks/{hook}/test")).status_code == 404
    assert (await theirs.delete(f"/api/v1/projects/eve/lab/webhooks/{'x' * 300}")).status_code == 404


def test_bodies_are_ascii_json() -> None:
    from tuneplane_server.clock import SYSTEM_CLOCK
    from tuneplane_server.features.alerts.firing import AlertWriter

    body = AlertWriter(SYSTEM_CLOCK, lambda: "http://x").envelope("test.ping", {"名": "\0é"})
    assert body.isascii()
    assert json.loads(body)["data"] == {"名": "\0é"}


def test_a_key_file_of_another_size_is_refused(tmp_path: Path) -> None:
    from tuneplane_server.sealing import SealError, load_sealer
    from tuneplane_server.settings import SettingsError

    path = tmp_path / "keys" / "secrets.key"
    sealer = load_sealer(None, path)
    assert load_sealer(None, path).open(sealer.seal("word", "a"), "a") == "word"
    for about, sealed in (("b", sealer.seal("word", "a")), ("a", b"\x02" + bytes(40)), ("a", b"")):
        with pytest.raises(SealError):
            sealer.open(sealed, about)
    path.write_bytes(b"short")
    with pytest.raises(SettingsError, match="backup"):
        load_sealer(None, path)
    with pytest.raises(SettingsError, match="TUNEPLANE_SECRETS_KEY"):
        load_sealer("not base64!", path)
