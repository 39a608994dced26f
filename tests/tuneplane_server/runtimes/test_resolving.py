"""What a runtime is for each form that an executor runs, and the very line to write where it is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane_server.features.runtimes.entries import ImageForm, Registry
from tuneplane_server.features.runtimes.reading import parse_registry
from tuneplane_server.features.runtimes.resolving import Known, ResolvedRuntime, resolve_runtime
from tuneplane_server.settings import load_settings

FILE = Path("/etc/tuneplane/runtimes.yaml")
DIGEST = "ab" * 32
VERSION = {"runtime_id": "trl-1.16", "requires": ["trl==1.16"]}
REGISTRY = f"""\
runtimes:
  trl-1.16:
    oci: registry.example.org/trl:1.16
    sif: {{path: /shared/trl.sif, digest: {DIGEST}, architecture: arm64}}
    sqsh: /shared/trl.sqsh
    bundle: /shared/trl
"""


def known(form: ImageForm, text: str = REGISTRY, **images: str) -> Known:
    settings = load_settings({"TUNEPLANE_RUNTIME_REGISTRY_FILE": str(FILE)}).with_values(images=images)
    return Known(settings, parse_registry(text.encode(), FILE), form)


def refused(known: Known, image: str | None = None) -> Refusal:
    with pytest.raises(RefusedError) as caught:
        resolve_runtime("trl", VERSION, known, image)
    (refusal,) = caught.value.refusals
    return refusal


@pytest.fixture
def bundle(tmp_path: Path) -> str:
    """An unpacked image."""
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle/config.json").touch()
    return str(tmp_path / "bundle")


def test_a_bundle_is_read_by_the_console_and_so_must_be_there(bundle: str) -> None:
    here = f"runtimes: {{trl-1.16: {{bundle: {bundle}}}}}"
    assert resolve_runtime("trl", VERSION, known("bundle", here)).image == bundle
    assert resolve_runtime("trl", VERSION, known("bundle"), bundle).source == "request"
    assert resolve_runtime("trl", VERSION, known("bundle", TRL=bundle)).source == "setting"
    refusal = refused(known("bundle"))
    assert refusal.code == "runtime-unresolved"
    assert f"{FILE}:6 names /shared/trl" in refusal.message


@pytest.mark.parametrize(
    ("form", "image"),
    [("oci", "registry.example.org/trl:1.16"), ("sif", "/shared/trl.sif"), ("sqsh", "/shared/trl.sqsh")],
)
def test_the_registry_gives_the_form_that_the_executor_runs(form: ImageForm, image: str) -> None:
    found = resolve_runtime("trl", VERSION, known(form))
    assert (found.image, found.source) == (image, "registry")


def test_what_the_registry_says_of_the_image_goes_along() -> None:
    found = resolve_runtime("trl", VERSION, known("sif"))
    assert found == ResolvedRuntime("trl-1.16", "/shared/trl.sif", "registry", DIGEST, "arm64")


@pytest.mark.parametrize(
    ("form", "line", "command"),
    [
        ("sif", "sif: /path/to/trl-1.16.sif", "apptainer build trl-1.16.sif docker://registry.example.org/trl:1.16"),
        ("sqsh", "sqsh: /path/to/trl-1.16.sqsh", "enroot import -o trl-1.16.sqsh docker://registry.example.org#trl:1.16"),
        ("bundle", "bundle: /path/to/trl-1.16", ""),
    ],
)  # fmt: skip
def test_a_runtime_that_is_there_only_as_oci_is_refused_with_the_line_to_add(
    form: ImageForm, line: str, command: str
) -> None:
    text = "runtimes:\n  trl-1.16:\n    oci: registry.example.org/trl:1.16\n"
    refusal = refused(known(form, text))
    assert refusal.code == "runtime-form"
    assert "oci (registry.example.org/trl:1.16)" in refusal.message
    assert f"{FILE}:2, below trl-1.16: {line}" in refusal.hint
    assert command in refusal.hint
    mended = parse_registry(f"{text}    {line}\n".encode(), FILE)
    assert mended.runtimes["trl-1.16"].images[form].image == line.partition(": ")[2]


def test_the_line_for_a_plain_entry_is_the_whole_entry() -> None:
    refusal = refused(known("sif", "runtimes:\n  trl-1.16: registry.example.org/trl:1.16\n"))
    line = "trl-1.16: {oci: registry.example.org/trl:1.16, sif: /path/to/trl-1.16.sif}"
    assert f"{FILE}:2: {line}" in refusal.hint
    assert resolve_runtime("trl", VERSION, known("sif", f"runtimes:\n  {line}\n")).image == "/path/to/trl-1.16.sif"


@pytest.mark.parametrize("form", ["oci", "sif", "sqsh", "bundle"])
def test_a_runtime_that_nobody_named_is_refused_with_the_line_to_add(form: ImageForm) -> None:
    refusal = refused(known(form, "runtimes: {}"))
    assert refusal.code == "runtime-unresolved"
    assert "TUNEPLANE_IMAGE_TRL" in refusal.hint
    line = refusal.hint.partition("the line ")[2].partition(";")[0]
    assert form in parse_registry(f"runtimes:\n  {line}\n".encode(), FILE).runtimes["trl-1.16"].images


def test_without_a_registry_the_hint_names_the_setting() -> None:
    refusal = refused(Known(load_settings({}), Registry(), "sif"))
    assert "set TUNEPLANE_RUNTIME_REGISTRY_FILE" in refusal.hint
    assert "runtimes: {trl-1.16: {sif: /path/to/trl-1.16.sif}}" in refusal.hint


@pytest.mark.parametrize(("form", "image"), [("sif", "/x/own.sif"), ("sqsh", "/x/own.sqsh"), ("oci", "own:1")])
def test_what_a_job_or_a_setting_names_counts_when_its_form_fits(form: ImageForm, image: str) -> None:
    assert resolve_runtime("trl", VERSION, known(form), image).source == "request"
    found = resolve_runtime("trl", VERSION, known(form, TRL=image))
    assert (found.image, found.source) == (image, "setting")


@pytest.mark.parametrize(
    ("form", "image"),
    [
        ("sif", "own:1"),
        ("sif", "/x/own.sqsh"),
        ("sif", "/x/own"),
        ("sqsh", "/x/own.sif"),
        ("bundle", "/x/own.sif"),
        ("bundle", "own:1"),
        ("oci", "/x/own.sif"),
        ("environment", "own:1"),
    ],
)
def test_what_a_job_or_a_setting_names_is_refused_when_its_form_does_not_fit(form: ImageForm, image: str) -> None:
    for refusal, named in (
        (refused(known(form), image), "--image"),
        (refused(known(form, TRL=image)), "TUNEPLANE_IMAGE_TRL"),
    ):
        assert refusal.code == "runtime-form"
        assert refusal.message.startswith(f"{named} names")
        assert image in refusal.message
        assert ("TUNEPLANE_SLURM_CONTAINER" in refusal.hint) == (form in ("sif", "sqsh", "bundle"))


def test_a_runtime_id_of_the_job_is_looked_up_instead_of_the_recipes() -> None:
    found = resolve_runtime("trl", VERSION | {"runtime_id": "other"}, known("sif"), None, "trl-1.16")
    assert found.image == "/shared/trl.sif"
