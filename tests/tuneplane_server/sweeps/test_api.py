"""`/api/v1/sweeps`: what is answered, to whom, and what bad requests get."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tuneplane_server.harness import Api, jobspec
from tests.tuneplane_server.sweeps.build import GRID, Sweeps, request
from tests.tuneplane_server.sweeps.reporting import report
from tuneplane_server.features.accounts.principal import Principal

URL = "/api/v1/sweeps"


def deep() -> Any:
    value: Any = 1
    for _level in range(90):
        value = [value]
    return value


BAD: list[Any] = [
    "sweep",
    [],
    {"sweep": {}, "job": {}},
    {"sweep": GRID | {"name": "a\0b"}, "job": jobspec()},
    {"sweep": GRID | {"params": {"env.A\0": {"values": [1]}}}, "job": jobspec()},
    {"sweep": GRID | {"params": {"env.A": {"values": ["\0"]}}}, "job": jobspec()},
    {"sweep": GRID | {"objective": {"metric": "\0", "goal": "min"}}, "job": jobspec()},
    {"sweep": GRID | {"params": {"env.A": {"values": [deep()]}}}, "job": jobspec()},
    {"sweep": GRID | {"params": {"env.A": {"values": [{"a": 1}]}}}, "job": jobspec()},
    {"sweep": GRID | {"params": {f"env.A{number}": {"values": [1]} for number in range(33)}}, "job": jobspec()},
    {"sweep": GRID | {"seed": 2**40}, "job": jobspec()},
    {"sweep": GRID | {"method": "random", "trials": 10**7}, "job": jobspec()},
    {"sweep": GRID, "job": jobspec() | {"kind": "Other"}},
]


async def test_a_job_names_the_sweep_it_is_a_trial_of(api: Api, sweeps: Sweeps, ada: Principal) -> None:
    row = await sweeps.create(request(GRID | {"name": "rates"}))
    await sweeps.harness.round(4)
    job = (await sweeps.trials(row.id))[1].job_id or ""
    async with await api.client(ada) as client:
        shown = (await client.get(f"/api/v1/jobs/{job}")).json()
        assert shown["sweep"] == {"id": row.id, "name": "rates", "trial": 1}
        assert {item["sweep"] for item in (await client.get("/api/v1/jobs")).json()["items"]} == {None}
        await sweeps.cancel(row.id)
        await sweeps.harness.round(4)
        await sweeps.resume(row.id)
        await sweeps.harness.round(4)
        again = (await sweeps.trials(row.id))[1]
        assert again.earlier_jobs == [job]
        for run in (job, again.job_id):
            assert (await client.get(f"/api/v1/jobs/{run}")).json()["sweep"]["trial"] == 1


@pytest.mark.parametrize(
    ("sweep", "trial"), [("", ""), (None, "1"), (None, "7"), (None, "١"), (None, "9" * 60), ("x", "0")]
)
async def test_labels_alone_make_no_trial(
    api: Api, sweeps: Sweeps, ada: Principal, sweep: str | None, trial: str
) -> None:
    row = await sweeps.create()
    spec = jobspec()
    spec["metadata"]["labels"] = {"sweep": row.id if sweep is None else sweep, "trial": trial}
    async with await api.client(ada) as client:
        made = await client.post("/api/v1/jobs", json=spec)
        assert made.status_code == 201, made.text
        assert (await client.get(f"/api/v1/jobs/{made.json()['id']}")).json()["sweep"] is None


async def test_a_sweep_from_a_dry_run_to_its_values(api: Api, sweeps: Sweeps, ada: Principal) -> None:
    objective = {"metric": "train/loss", "goal": "max"}
    body = request(GRID | {"objective": objective, "name": "rates"})
    async with await api.client(ada) as client:
        dry = (await client.post(f"{URL}?dry_run=true", json=body)).json()
        assert (dry["admitted"], dry["total"], dry["max_parallel"]) == (True, 3, 2)
        assert dry["variants"] == [{"env.LR": value} for value in (1, 2, 3)]
        assert (await client.get(URL)).json()["items"] == []
        made = await client.post(URL, json=body, headers={"Idempotency-Key": "k"})
        assert made.status_code == 201
        again = await client.post(URL, json=body, headers={"Idempotency-Key": "k"})
        sweep = made.json()["id"]
        assert again.json()["id"] == sweep
        await sweeps.harness.round(4)
        job = (await sweeps.trials(sweep))[1].job_id or ""
        await report(sweeps.harness, job, {1: 0.5, 3: float("nan")})
        shown = (await client.get(f"{URL}/{sweep}")).json()
        assert (shown["name"], shown["objective"], shown["counts"]) == ("rates", objective, {"submitted": 2})
        assert [(trial["value"], trial["step"], trial["phase"]) for trial in shown["trials"]] == [
            (None, None, "running"),
            ("NaN", 3, "running"),
        ]
        listed = (await client.get(f"{URL}?project=ada/lab&state=running&limit=1")).json()
        assert [item["id"] for item in listed["items"]] == [sweep]
        assert "trials" not in listed["items"][0]
        assert (await client.get(f"{URL}?project=other")).json()["items"] == []
        assert (await client.post(f"{URL}/{sweep}/resume")).status_code == 409
        assert (await client.post(f"{URL}/{sweep}/cancel")).status_code == 202


async def test_bad_requests_are_refused_in_words(api: Api, ada: Principal) -> None:
    async with await api.client(ada) as client:
        for body in BAD:
            for query in ("", "?dry_run=true"):
                answer = await client.post(f"{URL}{query}", json=body)
                told = answer.json()
                assert answer.status_code == 422 or (query and told["admitted"] is False), body
                assert told["refusals"], body
        assert (await client.post(URL, content=b"{")).status_code == 400
        assert (await client.get(f"{URL}?state=odd")).status_code == 422
        assert (await client.get(f"{URL}?project=../x")).status_code == 422
        for path in ("x", "0" * 16):
            assert (await client.get(f"{URL}/{path}")).status_code == 404


async def test_what_is_not_yours_is_not_there_and_a_reader_changes_nothing(api: Api, sweeps: Sweeps) -> None:
    row = await sweeps.create()
    eve = await sweeps.harness.user("eve")
    async with await api.client(eve) as client:
        assert (await client.get(f"{URL}/{row.id}")).status_code == 404
        assert (await client.post(f"{URL}/{row.id}/cancel")).status_code == 404
        assert (await client.get(URL)).json()["items"] == []
    async with await api.client(sweeps.user, ("read",)) as client:
        assert (await client.get(f"{URL}/{row.id}")).status_code == 200
        assert (await client.post(f"{URL}/{row.id}/cancel")).status_code == 403
        assert (await client.post(URL, json=request())).status_code == 403
    admin = await sweeps.harness.user("root", admin=True)
    async with await api.client(admin) as client:
        assert [item["id"] for item in (await client.get(URL)).json()["items"]] == [row.id]
        assert (await client.post(f"{URL}/{row.id}/cancel")).status_code == 202
    assert (await sweeps.get(row.id)).cancelled_by == "root"


async def test_what_stops_a_sweep_is_told_in_the_readers_language(api: Api, sweeps: Sweeps, ada: Principal) -> None:
    row = await sweeps.create()
    catalog = sweeps.harness.services.catalog
    catalog.entry = lambda method: None  # type: ignore[method-assign]
    await sweeps.look()
    async with await api.client(ada) as client:
        for language, word in (("en", "was refused"), ("zh-Hans", "被拒绝")):
            shown = (await client.get(f"{URL}/{row.id}", headers={"Accept-Language": language})).json()
            assert shown["why"]["code"] == "trial-refused"
            assert word in shown["why"]["text"]
            assert f"tp sweep resume {row.id}" in shown["why"]["hint"]
