"""Recipes of an organisation on the console: from its directories and through the API, shown, checked, and the same for both sides."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.tuneplane.recipes.organisations import SCRIPT, SFT, tree_of, write_recipe
from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import INGEST, ON_SQLITE, Api, Harness, jobspec
from tuneplane.contract.refusals import RefusedError
from tuneplane.recipes import index
from tuneplane_server.app import running
from tuneplane_server.doctor import examine

pytestmark = ON_SQLITE
METHOD = "custom/acme-script"


@pytest.fixture(autouse=True)
def own_catalog() -> Iterator[None]:
    """The catalog belongs to the process: every test has it to itself."""
    index.use_recipe_path(None)
    yield
    index.use_recipe_path(None)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    return write_recipe(tmp_path / "house", SCRIPT)


@pytest.fixture
async def with_path(migrated_url: str, tmp_path: Path, house: Path) -> AsyncIterator[Harness]:
    harness = Harness(migrated_url, tmp_path, ScriptedExecutor(), {"TUNEPLANE_RECIPE_PATH": str(house)})
    yield harness
    await harness.close()


@pytest.fixture
async def admin(api: Api) -> httpx2.AsyncClient:
    return await api.client(await api.harness.user("root", admin=True))


def as_body(files: dict[str, bytes]) -> dict[str, Any]:
    return {"files": {name: base64.b64encode(content).decode() for name, content in files.items()}}


async def put(client: httpx2.AsyncClient, files: dict[str, bytes]) -> httpx2.Response:
    return await client.put("/api/v1/organisation/recipes", json=as_body(files))


def paths(root: Path) -> list[Path]:
    return sorted(root.rglob("*"))


def codes(response: httpx2.Response) -> set[str]:
    assert response.status_code == 422, response.text
    return {refusal["code"] for refusal in response.json()["refusals"]}


async def test_the_directories_of_the_setting_are_published(with_path: Harness) -> None:
    api = Api.over(with_path)
    client = await api.client(await with_path.user())
    found = (await client.get("/api/v1/catalog")).json()
    assert found["methods"][METHOD]["origin"] == "organisation"
    assert found["methods"]["trl/sft"]["origin"] == "built-in"
    assert (await client.get("/api/v1/server")).json()["catalog_digest"] == found["digest"]
    shown = (await client.get(f"/api/v1/catalog/{METHOD}")).json()
    assert shown["digest"] == found["methods"][METHOD]["digest"]
    assert "path" not in str(shown)


async def test_both_sides_make_the_same_digests(with_path: Harness, house: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # fmt: skip
    theirs = with_path.services.catalog.overview()
    monkeypatch.setenv("TUNEPLANE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(index.RECIPE_PATH_VARIABLE, str(house))
    index.use_recipe_path(None)
    assert index.catalog_digest() == theirs["digest"]
    assert index.entry(METHOD)["digest"] == theirs["methods"][METHOD]["digest"]


async def test_a_job_of_such_a_method_is_admitted_checked_and_runs(with_path: Harness) -> None:
    ada = await with_path.user()
    await with_path.bring_package(ada)
    with_path.services.catalog.load()
    await with_path.running_job(ada, jobspec(METHOD))
    other = jobspec(METHOD)
    other["spec"]["recipe"]["digest"] = "0" * 64
    with pytest.raises(RefusedError) as caught:
        await with_path.submit(ada, other)
    assert [item.code for item in caught.value.refusals] == ["catalog-mismatch"]


async def test_a_byte_changed_on_the_disk_stops_submissions_of_it(with_path: Harness, house: Path) -> None:
    ada = await with_path.user()
    await with_path.bring_package(ada)
    with_path.services.catalog.load()
    spec = jobspec(METHOD)
    (house / METHOD / "template/train.sh").write_text("echo other\n")
    with pytest.raises(RefusedError) as caught:
        await with_path.submit(ada, spec)
    assert [item.code for item in caught.value.refusals] == ["catalog-mismatch"]
    assert "restart the console" in caught.value.refusals[0].hint


async def test_a_console_without_it_says_so(harness: Harness, house: Path) -> None:
    ada = await harness.user()
    await harness.bring_package(ada)
    index.use_recipe_path((house,))
    spec = jobspec(METHOD)
    index.use_recipe_path(None)
    with pytest.raises(RefusedError) as caught:
        await harness.services.jobs.submit(ada, spec, key=None, ingest_address=INGEST)
    (refusal,) = caught.value.refusals
    assert refusal.code == "method-unknown"
    assert METHOD in refusal.message


async def test_a_console_does_not_start_on_recipes_that_are_not_sound(with_path: Harness, house: Path) -> None:
    write_recipe(house, SCRIPT, nonsense=1)
    with pytest.raises(RefusedError, match="nonsense"):
        async with running(with_path.services, roles=False):
            pass
    found = await examine(with_path.services.settings)
    assert [item.code for item in found if item.level == "error"][:1] == ["recipe-invalid"]


async def test_an_administrator_publishes_through_the_api(api: Api, admin: httpx2.AsyncClient, tmp_path: Path) -> None:
    files = tree_of(write_recipe(tmp_path / "one", SFT))
    answer = await put(admin, files)
    assert answer.status_code == 200, answer.text
    assert answer.json()["methods"]["trl/acme-sft"]["origin"] == "organisation"
    reader = await api.client(await api.harness.user())
    stored = (await reader.get("/api/v1/organisation/recipes")).json()
    assert stored == as_body(files)
    assert (await reader.get("/api/v1/catalog")).json()["digest"] == answer.json()["digest"]
    entries = await api.harness.services.audit.newest()
    assert [entry.action for entry in entries if entry.action == "catalog.publish"] == ["catalog.publish"]


async def test_what_is_published_is_replaced_as_a_whole_and_survives_a_restart(
    api: Api, admin: httpx2.AsyncClient, tmp_path: Path
) -> None:
    await put(admin, tree_of(write_recipe(tmp_path / "one", SFT)))
    await put(admin, tree_of(write_recipe(tmp_path / "two", SCRIPT)))
    index.use_recipe_path(None)
    await api.harness.restart()
    methods = api.harness.services.catalog.overview()["methods"]
    assert METHOD in methods
    assert "trl/acme-sft" not in methods
    assert (await put(admin, {})).status_code == 200
    assert METHOD not in api.harness.services.catalog.overview()["methods"]


async def test_another_console_of_the_installation_takes_it_up(
    api: Api, admin: httpx2.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = api.harness.replica()
    assert other.services.catalog.entry(METHOD) is None
    await put(admin, tree_of(write_recipe(tmp_path / "one", SCRIPT)))
    index.use_recipe_path(None)  # the other console's process has read nothing of it yet
    monkeypatch.setattr("tuneplane_server.features.catalog.service.LOOK_SECONDS", 0)
    other.services.catalog._next_look = 0.0
    assert other.services.catalog.entry(METHOD) is not None
    await other.close()


async def test_what_is_not_sound_is_refused_whole_and_changes_nothing(
    api: Api, admin: httpx2.AsyncClient, tmp_path: Path
) -> None:
    await put(admin, tree_of(write_recipe(tmp_path / "good", SCRIPT)))
    before = api.harness.services.catalog.overview()
    folder = api.harness.services.storage.recipes
    trees = sorted(folder.iterdir())
    broken = await put(admin, tree_of(write_recipe(tmp_path / "bad", SFT, nonsense=1)))
    assert codes(broken) == {"recipe-invalid"}
    assert broken.json()["refusals"][0]["file"] == "trl/acme-sft/recipe.yaml"
    assert str(folder) not in broken.text
    assert codes(await put(admin, tree_of(write_recipe(tmp_path / "clash", SFT, name="trl/sft")))) == {"recipe-clash"}
    assert codes(await put(admin, {"README.md": b"x", "a/b": b""})) == {"recipe-invalid"}
    assert api.harness.services.catalog.overview() == before
    assert sorted(folder.iterdir()) == trees


@pytest.mark.parametrize("name", ["/etc/x/y", "../x/y", "a/../../y", "a//b", "a/./b", "a/\0", "a/b\n", "x" * 300 + "/y", "a", ""])  # fmt: skip
async def test_a_path_that_leads_elsewhere_is_refused(api: Api, admin: httpx2.AsyncClient, name: str, tmp_path: Path) -> None:  # fmt: skip
    files = tree_of(write_recipe(tmp_path / "good", SCRIPT)) | {name: b"x"}
    before = paths(tmp_path)
    assert codes(await put(admin, files)) == {"recipe-invalid"}
    assert paths(tmp_path) == before


async def test_a_file_that_would_be_a_directory_too_is_refused(admin: httpx2.AsyncClient) -> None:
    assert codes(await put(admin, {"a/b": b"", "a/b/c": b""})) == {"recipe-invalid"}


async def test_a_name_of_the_setting_cannot_be_published_too(with_path: Harness, tmp_path: Path) -> None:
    client = await Api.over(with_path).client(await with_path.user("root", admin=True))
    assert codes(await put(client, tree_of(write_recipe(tmp_path / "again", SCRIPT, version="2.0")))) == {"recipe-clash"}  # fmt: skip


async def test_only_administrators_publish(api: Api, tmp_path: Path) -> None:
    client = await api.client(await api.harness.user())
    assert (await put(client, tree_of(write_recipe(tmp_path / "one", SFT)))).status_code == 403
    assert (await client.get("/api/v1/organisation/recipes")).json() == {"files": {}}
    assert (await api.anonymous().get("/api/v1/organisation/recipes")).status_code == 401


@pytest.mark.parametrize(
    "body", [{}, {"files": []}, {"files": {"a/b": 3}}, {"files": {"a/b": "%"}}, {"files": {}, "x": 1}]
)
async def test_a_body_of_another_shape_is_refused(admin: httpx2.AsyncClient, body: Any) -> None:
    answer = await admin.put("/api/v1/organisation/recipes", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "request-invalid")
