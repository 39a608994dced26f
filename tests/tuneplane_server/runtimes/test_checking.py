"""What `doctor` says of the runtimes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneplane.recipes import index
from tuneplane_server.clock import SYSTEM_CLOCK
from tuneplane_server.executors.port import Finding
from tuneplane_server.features.runtimes.checking import frameworks_of, registry_findings
from tuneplane_server.features.runtimes.entries import ImageForm
from tuneplane_server.features.runtimes.registry import RuntimeRegistry
from tuneplane_server.findings import Findings
from tuneplane_server.settings import load_settings

FRAMEWORKS = {"trl-1.16": "trl", "verl-0.9": "verl", "nemo-rl-0.7": "nemo-rl"}


async def findings(file: Path | None, form: ImageForm, **images: str) -> list[Finding]:
    settings = load_settings({}).with_values(runtime_registry_file=file, images=images)
    return await registry_findings(RuntimeRegistry(file, Findings(SYSTEM_CLOCK)), settings, form, FRAMEWORKS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    image = tmp_path / "trl.sif"
    image.touch()
    file = tmp_path / "runtimes.yaml"
    file.write_text(f"runtimes:\n  trl-1.16: {image}\n  verl-0.9: {{oci: x:1, sif: /nowhere/verl.sif}}\n")
    return file


async def test_files_that_are_not_there_are_a_warning_with_their_line(file: Path) -> None:
    found = await findings(file, "sif")
    assert [(item.code, item.level) for item in found] == [
        ("runtime-registry", "info"), ("runtime-missing", "warning"), ("runtime-missing", "info"),
    ]  # fmt: skip
    assert f"/nowhere/verl.sif is not there on the console's machine ({file}:3)" in found[1].text
    assert "2 runtimes of the catalog can run here" in found[2].text
    assert found[2].text.endswith(": nemo-rl-0.7")


async def test_an_image_of_the_settings_is_enough(file: Path) -> None:
    found = await findings(file, "sif", NEMO_RL="/x/nemo.sif")
    assert [item.code for item in found] == ["runtime-registry", "runtime-missing"]


async def test_where_images_are_pulled_nothing_of_files_is_said(file: Path) -> None:
    assert [item.code for item in await findings(file, "oci")] == ["runtime-registry"]
    assert await findings(None, "oci") == []


async def test_slurm_without_a_registry_is_warned_with_what_to_write() -> None:
    (found,) = await findings(None, "sqsh")
    assert (found.code, found.level) == ("runtime-registry", "warning")
    assert "TUNEPLANE_RUNTIME_REGISTRY_FILE" in found.hint
    assert "{sqsh: /path/to/image.sqsh}" in found.hint
    named = {"TRL": "/a.sqsh", "VERL": "/b.sqsh", "NEMO_RL": "/c.sqsh"}
    assert [item.level for item in await findings(None, "sqsh", **named)] == ["info"]


async def test_every_mistake_of_the_file_is_an_error_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "runtimes.yaml"
    file.write_text("runtimes:\n  a-1: untagged\n  b-1: 5\n")
    found = await findings(file, "oci")
    assert [(item.level, item.text.partition(": ")[0]) for item in found] == [
        ("error", f"{file}:2"), ("error", f"{file}:3"),
    ]  # fmt: skip


def test_the_catalogs_runtimes_know_their_framework() -> None:
    found = frameworks_of(index.entry(method)["manifest"] for method in index.methods())
    assert (found["trl-1.16"], found["custom"]) == ("trl", "custom")
