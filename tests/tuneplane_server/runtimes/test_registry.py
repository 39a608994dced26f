"""The registry of a running console: a changed file counts without a restart, a bad one changes nothing and is told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tuneplane.contract.refusals import RefusedError
from tuneplane.i18n import set_language
from tuneplane_server.clock import SYSTEM_CLOCK
from tuneplane_server.features.nodes.pinned import PinnedImages
from tuneplane_server.features.runtimes import registry as registry_module
from tuneplane_server.features.runtimes.registry import RuntimeRegistry
from tuneplane_server.findings import Findings
from tuneplane_server.settings import load_settings

BOUND = 60.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "runtimes.yaml"
    write(file, "a-1: x:1")
    return file


@pytest.fixture
def findings() -> Findings:
    return Findings(SYSTEM_CLOCK)


def write(file: Path, *entries: str) -> None:
    """In place of what was there, as whoever keeps such a file should do it."""
    new = file.with_suffix(".new")
    new.write_text("runtimes:\n" + "".join(f"  {entry}\n" for entry in entries))
    new.replace(file)


def _moved(file: Path, to: Path) -> Path:
    return file.rename(to)


async def known(registry: RuntimeRegistry) -> set[str]:
    return set((await registry.current()).runtimes)


async def test_a_changed_file_counts_at_the_next_question(file: Path, findings: Findings) -> None:
    registry = RuntimeRegistry(file, findings)
    await registry.load()
    assert await known(registry) == {"a-1"}
    write(file, "a-1: x:2", "b-1: y:1")
    found = await registry.current()
    assert {name: runtime.images["oci"].image for name, runtime in found.runtimes.items()} == {
        "a-1": "x:2",
        "b-1": "y:1",
    }
    assert findings.all() == []


async def test_a_touched_file_is_the_same_registry(file: Path, findings: Findings) -> None:
    registry = RuntimeRegistry(file, findings)
    before = await registry.current()
    os.utime(file, ns=(1, 1))
    assert await registry.current() is before


async def test_a_bad_version_changes_nothing_and_is_told_until_it_is_mended(file: Path, findings: Findings) -> None:
    registry = RuntimeRegistry(file, findings)
    await registry.load()
    write(file, "a-1: x:1", "b-1: untagged")
    assert await known(registry) == {"a-1"}
    assert [(refusal.file, refusal.line) for refusal in await registry.problems()] == [(str(file), 3)]
    assert [finding.code for finding in findings.all()] == ["runtime-registry"]
    assert f"{file}:3" in findings.all()[0].text
    write(file, "a-1: x:1", "b-1: y:1")
    assert await known(registry) == {"a-1", "b-1"}
    assert (findings.all(), await registry.problems()) == ([], [])


async def test_back_to_the_version_that_counts_is_mended_too(file: Path, findings: Findings) -> None:
    registry = RuntimeRegistry(file, findings)
    before = await registry.current()
    write(file, "b-1: untagged")
    await registry.current()
    write(file, "a-1: x:1")
    assert await registry.current() is before
    assert findings.all() == []


async def test_a_file_that_goes_away_is_told_and_what_it_said_counts(file: Path, findings: Findings) -> None:
    registry = RuntimeRegistry(file, findings)
    await registry.load()
    away = _moved(file, file.with_suffix(".away"))
    assert await known(registry) == {"a-1"}
    assert "TUNEPLANE_RUNTIME_REGISTRY_FILE" in (await registry.problems())[0].hint
    assert len(findings.all()) == 1
    _moved(away, file)
    assert await known(registry) == {"a-1"}
    assert (findings.all(), await registry.problems()) == ([], [])


async def test_what_is_wrong_is_said_in_the_language_of_the_reader(file: Path, findings: Findings) -> None:
    registry = RuntimeRegistry(file, findings)
    await registry.load()
    write(file, "b-1: [")
    await registry.current()
    english = (await registry.problems())[0].message
    set_language("zh-Hans")
    try:
        assert (await registry.problems())[0].message != english
    finally:
        set_language("en")


@pytest.fixture(params=["[broken", "runtimes: {a-1: untagged}", None], ids=["yaml", "entry", "missing"])
def bad_file(request: pytest.FixtureRequest, file: Path) -> Path:
    if request.param is None:
        file.unlink()
    else:
        file.write_text(request.param)
    return file


async def test_a_console_does_not_start_with_a_bad_file(bad_file: Path, findings: Findings) -> None:
    file = bad_file
    registry = RuntimeRegistry(file, findings)
    for ask in (registry.load, registry.current):
        with pytest.raises(RefusedError) as caught:
            await ask()
        assert caught.value.refusals[0].file == str(file)
    write(file, "a-1: x:1")
    assert await known(registry) == {"a-1"}


async def test_no_file_is_an_empty_registry(findings: Findings) -> None:
    registry = RuntimeRegistry(None, findings)
    await registry.load()
    registry.start()
    assert await known(registry) == set()
    await registry.stop()


async def test_a_bad_version_is_found_before_somebody_asks(
    file: Path, findings: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_module, "LOOK_EVERY_SECONDS", 0.01)
    told = asyncio.Event()
    real = findings.put

    def put(code: str, data: Mapping[str, Any] | None = None) -> bool:
        told.set()
        return real(code, data)

    monkeypatch.setattr(findings, "put", put)
    registry = RuntimeRegistry(file, findings)
    await registry.load()
    registry.start()
    try:
        write(file, "b-1: untagged")
        await asyncio.wait_for(told.wait(), BOUND)
    finally:
        await registry.stop()


async def test_a_filesystem_that_hangs_holds_up_nobody(
    file: Path, findings: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = RuntimeRegistry(file, findings)
    await registry.load()
    goes_on = asyncio.Event()
    loop = asyncio.get_running_loop()
    real = registry_module._changed

    def hangs(*arguments: Any) -> Any:
        asyncio.run_coroutine_threadsafe(goes_on.wait(), loop).result(BOUND)
        return real(*arguments)

    monkeypatch.setattr(registry_module, "_changed", hangs)
    monkeypatch.setattr(registry_module, "LONGEST_LOOK_SECONDS", 0.01)
    write(file, "b-1: y:1")
    assert await known(registry) == {"a-1"}
    goes_on.set()
    monkeypatch.setattr(registry_module, "LONGEST_LOOK_SECONDS", BOUND)
    assert await known(registry) == {"b-1"}


async def test_what_nodes_keep_are_the_images_as_jobs_ask_for_them(tmp_path: Path, findings: Findings) -> None:
    file, digest = tmp_path / "runtimes.yaml", "ab" * 32
    write(file, f"a-1: {{oci: {{image: 'x/a:1', digest: {digest}}}, sif: /x.sif}}", "b-1: /env", "c-1: y:1")
    settings = load_settings({"TUNEPLANE_IMAGE_TRL": "z:1", "TUNEPLANE_IMAGE_VERL": "/env"})
    pinned = PinnedImages(settings, RuntimeRegistry(file, findings))
    assert await pinned.images() == (f"x/a@sha256:{digest}", "y:1", "z:1")
