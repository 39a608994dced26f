"""Which image (or Python environment) a job runs in: --image, TUNEPLANE_IMAGE_<FRAMEWORK>, the runtime registry file, the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane_server.features.runtimes import words
from tuneplane_server.features.runtimes.entries import FILE_ENDINGS, ImageForm, RegisteredRuntime, Registry, form_of
from tuneplane_server.settings import IMAGE_PREFIX, Settings

type Source = Literal["request", "setting", "registry", "catalog"]


@dataclass(frozen=True)
class ResolvedRuntime:
    """`image`: OCI reference, or path of an image file, a bundle or an environment, or None when the recipe needs nothing beyond a
    Python. `digest` (SHA-256 in hex) and `architecture` are what the registry says of it; None: it says nothing."""

    runtime_id: str
    image: str | None
    source: Source
    digest: str | None = None
    architecture: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"runtime_id": self.runtime_id, "image": self.image, "source": self.source}


@dataclass(frozen=True)
class Known:
    """What this console knows of runtimes beside what a job itself names. `form`: what its executor runs."""

    settings: Settings
    registry: Registry
    form: ImageForm


def resolve_runtime(
    kind: str, version: Mapping[str, Any], known: Known, image: str | None = None, runtime_id: str | None = None
) -> ResolvedRuntime:
    """`kind`: the framework. `version`: the recipe's runtime entry (contract/recipe.RuntimeVersion) of the framework version. `image`
    and `runtime_id`: what the job itself names.

    Raises `RefusedError` with `runtime-unresolved` or `runtime-form`; reads files, so call it from a thread.
    """
    runtime_id = runtime_id or version["runtime_id"]
    name = setting_name(kind)
    if image is not None:
        return _checked(ResolvedRuntime(runtime_id, image, "request"), known.form, "--image")
    if (configured := known.settings.images.get(name)) is not None:
        return _checked(ResolvedRuntime(runtime_id, configured, "setting"), known.form, IMAGE_PREFIX + name)
    registered = known.registry.runtimes.get(runtime_id)
    if registered is not None and known.form in registered.images:
        return _registered(registered, known)
    if known.form == "environment" and registered is None:
        return _environment(runtime_id, version, known.settings)
    if registered is not None:
        raise _refused("runtime-form", *words.other_form(registered, known.form, known.settings.runtime_registry_file))
    raise _refused("runtime-unresolved", *words.unknown(runtime_id, known.form, known.settings, IMAGE_PREFIX + name))


def setting_name(framework: str) -> str:
    """`nemo-rl` -> `NEMO_RL`."""
    return framework.upper().replace("-", "_").replace(".", "_")


def environment_usable(path: Path) -> bool:
    """Whether a whole Python environment is at `path`: one we built says so itself, one made by hand has a python3."""
    if not (path / "bin" / "python3").exists():
        return False
    built_by_us = (path.parent / f".{path.name}.lock").exists()
    return not built_by_us or (path / ".ready").exists()


def _registered(runtime: RegisteredRuntime, known: Known) -> ResolvedRuntime:
    found = runtime.images[known.form]
    resolved = ResolvedRuntime(runtime.runtime_id, found.image, "registry", found.digest, found.architecture)
    return _checked(resolved, known.form, f"{known.settings.runtime_registry_file}:{found.line}")


def _environment(runtime_id: str, version: Mapping[str, Any], settings: Settings) -> ResolvedRuntime:
    if not version.get("requires"):
        return ResolvedRuntime(runtime_id, None, "catalog")
    path = settings.runtimes / runtime_id
    if environment_usable(path):
        return ResolvedRuntime(runtime_id, str(path), "catalog")
    raise _refused(
        "runtime-unresolved",
        _("the runtime {runtime_id} is not there: process mode needs a Python environment at {path}").format(
            runtime_id=runtime_id, path=path
        ),
        _("build it on the console's machine: tuneplane-server runtime build {runtime_id}").format(
            runtime_id=runtime_id
        ),
    )


def _checked(runtime: ResolvedRuntime, form: ImageForm, where: str) -> ResolvedRuntime:
    image = runtime.image
    assert image is not None
    if not _fits(image, form):
        raise _refused("runtime-form", *words.does_not_fit(where, image, form))
    if form == "environment" and not environment_usable(Path(image)):
        raise _refused(
            "runtime-unresolved",
            _("{where} names {image}, and there is no Python environment").format(where=where, image=image),
            _("an environment is a directory with bin/python3"),
        )
    if form == "bundle" and not (Path(image) / "config.json").is_file():
        raise _refused(
            "runtime-unresolved",
            _("{where} names {image}, and on the console's machine there is no OCI bundle with its config.json").format(
                where=where, image=image
            ),
            _("the console reads it at the path that the compute nodes see: unpack the image where both have it"),
        )
    return runtime


def _fits(image: str, form: ImageForm) -> bool:
    if form == "oci":
        return not image.startswith("/")
    if form in FILE_ENDINGS:
        return image.startswith("/") and image.endswith(FILE_ENDINGS[form])
    return (
        image.startswith("/") and form_of(image) == "environment"
    )  # a directory: of an environment, or an unpacked bundle


def _refused(code: str, message: str, hint: str) -> RefusedError:
    return RefusedError([Refusal(code, message, hint, field="spec.framework")])
