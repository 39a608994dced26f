"""Why a runtime cannot be used here, as people read it: what is wrong, and the very line to write. Each function gives (message, hint)."""

from __future__ import annotations

from pathlib import Path

from tuneplane.i18n import _
from tuneplane_server.features.runtimes.entries import FILE_ENDINGS, ImageForm, RegisteredRuntime
from tuneplane_server.settings import Settings

_SLURM_FORMS: tuple[ImageForm, ...] = ("sif", "sqsh", "bundle")


def other_form(runtime: RegisteredRuntime, form: ImageForm, file: Path | None) -> tuple[str, str]:
    """The registry has the runtime, in other forms only."""
    there = ", ".join(f"{image.form} ({image.image})" for image in runtime.images.values())
    message = _("the runtime registry has {runtime_id} only as {forms}, and this console runs {wanted}").format(
        runtime_id=runtime.runtime_id, forms=there or "-", wanted=_what(form)
    )
    where = f"{file}:{runtime.line}"
    if runtime.plain:
        hint = _("write in {where}: {line}").format(where=where, line=_plain_line(runtime, form))
    else:
        hint = _("add in {where}, below {runtime_id}: {line}").format(
            where=where, runtime_id=runtime.runtime_id, line=f"{form}: {example(runtime.runtime_id, form)}"
        )
    made = _made_from(runtime, form)
    return message, _both(hint, made) if made else hint


def unknown(runtime_id: str, form: ImageForm, settings: Settings, variable: str) -> tuple[str, str]:
    """Nothing names an image for the runtime."""
    message = _("no image is known for the runtime {runtime_id}").format(runtime_id=runtime_id)
    if form == "environment":
        message = _("no environment is known for the runtime {runtime_id}").format(runtime_id=runtime_id)
    elif form in _SLURM_FORMS:
        message = _("this console runs {wanted}, and none is known for the runtime {runtime_id}").format(
            wanted=_what(form), runtime_id=runtime_id
        )
    line = f"{runtime_id}: {{{form}: {example(runtime_id, form)}}}"
    if settings.runtime_registry_file is not None:
        hint = _(
            "add to {file}, below “runtimes:”, the line {line}; or set {variable} on the console, or name an image with --image"
        ).format(file=settings.runtime_registry_file, line=line, variable=variable)
    else:
        hint = _(
            "set TUNEPLANE_RUNTIME_REGISTRY_FILE on the console to a file with runtimes: {{{line}}}; or set {variable} there, or name an image with --image"
        ).format(line=line, variable=variable)
    return message, hint


def does_not_fit(where: str, image: str, form: ImageForm) -> tuple[str, str]:
    """What a job, a setting or the registry names is of another form than the executor runs. `where` names it."""
    if form == "oci":
        return (
            _("{where} names a path, {image}, and this console starts containers").format(where=where, image=image),
            _("give an image with a tag or a digest"),
        )
    if form == "environment":
        return (
            _("{where} names an image, {image}, and this console runs processes, not containers").format(
                where=where, image=image
            ),
            _("give the path of a Python environment, or set TUNEPLANE_RUNTIME to docker or podman on the console"),
        )
    message = _("{where} names {image}, and this console runs {wanted}").format(
        where=where, image=image, wanted=_what(form)
    )
    if form == "bundle":
        hint = _("give the absolute path of an unpacked OCI bundle, a directory with config.json and rootfs")
    else:
        hint = _("give the absolute path of a file that ends in {endings}, as the compute nodes see it").format(
            endings=", ".join(FILE_ENDINGS[form])
        )
    return message, _both(hint, _("TUNEPLANE_SLURM_CONTAINER on the console decides which form it is"))


def other_architecture(runtime_id: str, wanted: str, have: list[str], file: Path | None) -> tuple[str, str]:
    """The registry says that the image is of an architecture that no node of the pools has."""
    return (
        _("the runtime {runtime_id} is an image for {wanted}, and the machines are {have}").format(
            runtime_id=runtime_id, wanted=wanted, have=", ".join(have)
        ),
        _("name an image for {have} in {file}, or correct its architecture there").format(
            have=_(" or ").join(have), file=file
        ),
    )


def example(runtime_id: str, form: ImageForm) -> str:
    """What could stand in the registry."""
    if form == "oci":
        return f"registry.example.org/{runtime_id}:1"
    endings = FILE_ENDINGS.get(form)
    return f"/path/to/{runtime_id}{endings[0] if endings else ''}"


def _both(first: str, second: str) -> str:
    return _("{first}; {second}").format(first=first, second=second)


def _what(form: ImageForm) -> str:
    return {
        "oci": _("OCI images (oci)"),
        "sif": _("SIF files (sif), with Apptainer"),
        "sqsh": _("SQSH files (sqsh), with Enroot and Pyxis"),
        "bundle": _("unpacked OCI bundles (bundle), with Slurm's own containers"),
        "environment": _("Python environments (environment), as processes"),
    }[form]


def _plain_line(runtime: RegisteredRuntime, form: ImageForm) -> str:
    """The line that replaces a plain entry, so that it has a second form."""
    forms = [f"{known.form}: {known.image}" for known in runtime.images.values()]
    return f"{runtime.runtime_id}: {{{', '.join([*forms, f'{form}: {example(runtime.runtime_id, form)}'])}}}"


def _made_from(runtime: RegisteredRuntime, form: ImageForm) -> str:
    """The command that makes the file of the OCI image that is there."""
    source = runtime.images.get("oci")
    if source is None or form not in FILE_ENDINGS:
        return ""
    file = f"{runtime.runtime_id}{FILE_ENDINGS[form][0]}"
    if form == "sif":
        command = f"apptainer build {file} docker://{source.image}"
    else:  # enroot parts registry and name by a hash
        registry, slash, name = source.image.partition("/")
        has_registry = slash and ("." in registry or ":" in registry or registry == "localhost")
        command = f"enroot import -o {file} docker://{registry}#{name}" if has_registry else f"enroot import -o {file} docker://{source.image}"  # fmt: skip
    return _("the file is made with: {command}").format(command=command)
