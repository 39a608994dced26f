"""Which image (or Python environment) a job runs in: --image, TUNEPLANE_IMAGE_<FRAMEWORK>, the runtime registry file, the catalog."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tuneplane.contract.jobspec import Framework
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane_server.settings import IMAGE_PREFIX, Settings

type ImageForm = Literal["oci", "environment"]
MAX_REGISTRY_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class ResolvedRuntime:
    """`image`: OCI reference, or path of an environment, or None when the recipe needs nothing beyond a Python."""

    runtime_id: str
    image: str | None
    source: Literal["request", "setting", "registry", "catalog"]

    def to_json(self) -> dict[str, Any]:
        return {"runtime_id": self.runtime_id, "image": self.image, "source": self.source}


def resolve_runtime(
    framework: Framework, version: dict[str, Any], settings: Settings, form: ImageForm
) -> ResolvedRuntime:
    """`version`: the recipe's runtime entry (contract/recipe.RuntimeVersion) of the framework version.

    Raises `RefusedError` with `runtime-unresolved` or `runtime-form`; reads files, so call it from a thread.
    """
    runtime_id: str = framework.runtime_id or version["runtime_id"]
    variable = IMAGE_PREFIX + setting_name(framework.kind)
    if framework.image is not None:
        return _checked(ResolvedRuntime(runtime_id, framework.image, "request"), form, "--image")
    configured = settings.images.get(setting_name(framework.kind))
    if configured is not None:
        return _checked(ResolvedRuntime(runtime_id, configured, "setting"), form, variable)
    registered = _from_registry(settings.runtime_registry_file, runtime_id, form)
    if registered is not None:
        where = str(settings.runtime_registry_file)
        return _checked(ResolvedRuntime(runtime_id, registered, "registry"), form, where)
    return _from_catalog(runtime_id, version, settings, form, variable)


def setting_name(framework: str) -> str:
    """`nemo-rl` -> `NEMO_RL`."""
    return framework.upper().replace("-", "_").replace(".", "_")


def _from_catalog(
    runtime_id: str, version: dict[str, Any], settings: Settings, form: ImageForm, variable: str
) -> ResolvedRuntime:
    if form == "environment":
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
    raise _refused(
        "runtime-unresolved",
        _("no image is known for the runtime {runtime_id}").format(runtime_id=runtime_id),
        _("name one with --image, set {variable} on the console, or list it in TUNEPLANE_RUNTIME_REGISTRY_FILE").format(
            variable=variable
        ),
    )


def environment_usable(path: Path) -> bool:
    """Whether a whole Python environment is at `path`: one we built says so itself, one made by hand has a python3."""
    if not (path / "bin" / "python3").exists():
        return False
    built_by_us = (path.parent / f".{path.name}.lock").exists()
    return not built_by_us or (path / ".ready").exists()


def _checked(runtime: ResolvedRuntime, form: ImageForm, where: str) -> ResolvedRuntime:
    assert runtime.image is not None
    is_path = runtime.image.startswith("/")
    if form == "oci" and is_path:
        raise _refused(
            "runtime-form",
            _("{where} names a path, {image}, and this console starts containers").format(
                where=where, image=runtime.image
            ),
            _("give an image with a tag or a digest"),
        )
    if form == "environment" and not is_path:
        raise _refused(
            "runtime-form",
            _("{where} names an image, {image}, and this console runs processes, not containers").format(
                where=where, image=runtime.image
            ),
            _("give the path of a Python environment, or set TUNEPLANE_RUNTIME to docker or podman on the console"),
        )
    if form == "environment" and not environment_usable(Path(runtime.image)):
        raise _refused(
            "runtime-unresolved",
            _("{where} names {image}, and there is no Python environment").format(where=where, image=runtime.image),
            _("an environment is a directory with bin/python3"),
        )
    return runtime


def _from_registry(file: Path | None, runtime_id: str, form: ImageForm) -> str | None:
    if file is None:
        return None
    entry = read_registry(file).get(runtime_id)
    if isinstance(entry, str):
        return entry
    if isinstance(entry, dict):
        found = entry.get(form)
        if isinstance(found, str):
            return found
        known = ", ".join(sorted(str(key) for key in entry))
        raise _refused(
            "runtime-form",
            _("the runtime registry has {runtime_id} only as {forms}, which this console cannot run").format(
                runtime_id=runtime_id, forms=known or "-"
            ),
            _("add the form {form} to {file}").format(form=form, file=file),
        )
    return None


def read_registry(file: Path) -> dict[str, Any]:
    """`runtimes:` of the registry file: runtime_id -> text, or a mapping form -> text. YAML or JSON."""
    import yaml

    try:
        if file.stat().st_size > MAX_REGISTRY_BYTES:
            raise ValueError(_("it is larger than 4 MiB"))
        text = file.read_text(encoding="utf-8")
        content = json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
        runtimes = content.get("runtimes") if isinstance(content, dict) else None
        if not isinstance(runtimes, dict):
            raise ValueError(_("it has no mapping “runtimes”"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise _refused(
            "runtime-unresolved",
            _("the runtime registry {file} cannot be read: {error}").format(file=file, error=error),
            _("ask the console's administrator: TUNEPLANE_RUNTIME_REGISTRY_FILE names it"),
        ) from None
    return runtimes


def _refused(code: str, message: str, hint: str) -> RefusedError:
    return RefusedError([Refusal(code, message, hint, field="spec.framework")])
