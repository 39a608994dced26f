"""The list of runtimes: over the API and as a page, with the line to add where one cannot run here."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tuneplane_server.console.conftest import ADDRESS, Browser, app_of, browsing, read
from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Api, Harness
from tuneplane_server.executors.port import Capabilities

DIGEST = "ab" * 32


@dataclasses.dataclass
class Apptainer(ScriptedExecutor):
    def capabilities(self) -> Capabilities:
        return Capabilities("apptainer", "sif", own_queue=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file, image = tmp_path / "runtimes.yaml", tmp_path / "trl.sif"
    image.touch()
    file.write_text(
        "runtimes:\n"
        f"  trl-1.16: {{sif: {{path: {image}, digest: {DIGEST}, architecture: amd64, capabilities: [fp8]}}}}\n"
        "  verl-0.9:\n    oci: registry.example.org/verl:0.9\n"
        "  house-1: {sif: /nowhere/house.sif}\n"
    )
    return file


@pytest.fixture
async def house(migrated_sqlite_url: str, tmp_path: Path, file: Path) -> AsyncIterator[Harness]:
    extra = {
        "TUNEPLANE_RUNTIME_REGISTRY_FILE": str(file),
        "TUNEPLANE_PUBLIC_URL": ADDRESS,
        "TUNEPLANE_IMAGE_PYTORCH": "/shared/torch.sif",
        "TUNEPLANE_IMAGE_CUSTOM": "registry.example.org/custom:1",
    }
    harness = Harness(migrated_sqlite_url, tmp_path, Apptainer(), extra)
    yield harness
    await harness.close()


async def test_every_runtime_is_listed_with_what_it_is_here_or_the_line_to_add(house: Harness, file: Path) -> None:
    api = Api.over(house)
    client = await api.client(await house.user())
    found = (await client.get("/api/v1/runtimes")).json()
    assert (found["executor"], found["form"], found["file"], found["problems"]) == ("scripted", "sif", str(file), [])
    items = {item["runtime_id"]: item for item in found["items"]}
    trl = items["trl-1.16"]
    assert (trl["usable"], trl["source"], "trl/sft" in trl["methods"]) == (True, "registry", True)
    (image,) = trl["images"]
    assert (image["digest"], image["architecture"], image["capabilities"]) == (DIGEST, "amd64", ["fp8"])
    assert (image["present"], image["line"]) == (True, 2)
    verl = items["verl-0.9"]
    assert (verl["usable"], verl["image"], verl["images"][0]["present"]) == (False, None, None)
    assert f"{file}:3, below verl-0.9: sif: /path/to/verl-0.9.sif" in verl["hint"]
    assert (items["house-1"]["methods"], items["house-1"]["images"][0]["present"]) == ([], False)
    torch = next(item for item in found["items"] if "pytorch/image-classification" in item["methods"])
    assert (torch["image"], torch["source"]) == ("/shared/torch.sif", "setting")
    custom = next(item for item in found["items"] if "custom/custom" in item["methods"])
    assert "TUNEPLANE_IMAGE_CUSTOM names registry.example.org/custom:1" in custom["why"]


async def test_nobody_sees_it_without_signing_in(house: Harness) -> None:
    assert (await Api.over(house).anonymous().get("/api/v1/runtimes")).status_code == 401


async def test_the_page_shows_the_same_and_a_file_that_was_spoilt(house: Harness, file: Path) -> None:
    reader = await house.user("bob")
    async with browsing(app_of(house)) as browser:
        await browser.become(house.services, reader)
        await _shown(browser, file)


def spoil(file: Path) -> None:
    file.write_text("runtimes:\n  trl-1.16: {sfi: /x.sif}\n")


async def _shown(browser: Browser, file: Path) -> None:
    assert "/runtimes" in read((await browser.get("/hardware")).text).addresses
    text = (await browser.get("/runtimes")).text
    assert read(text).inline == []
    assert 'data-runtime="trl-1.16" data-usable="yes"' in text
    assert 'data-runtime="verl-0.9" data-usable="no"' in text
    assert "sif: /path/to/verl-0.9.sif" in text
    assert "from TUNEPLANE_IMAGE_*" in text
    assert "data-registry-problems" not in text
    spoil(file)
    text = (await browser.get("/runtimes")).text
    assert "data-registry-problems" in text
    assert f"{file}:2" in text
    assert 'data-runtime="trl-1.16" data-usable="yes"' in text, "what it said before counts"
    health = (await browser.get("/healthz")).json()
    assert [finding["code"] for finding in health["findings"]] == ["runtime-registry"]
