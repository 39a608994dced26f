"""How runtimes look to the API."""

from __future__ import annotations

from pydantic import BaseModel

from tuneplane.contract.refusals import Refusal
from tuneplane_server.features.runtimes.entries import ImageForm
from tuneplane_server.features.runtimes.resolving import ResolvedRuntime, Source
from tuneplane_server.features.runtimes.service import Overview, SeenImage, SeenRuntime


class ImageView(BaseModel):
    """`image`: an OCI reference or an absolute path. `digest`: SHA-256 in hex. `present`: whether the path is there on the console's
    machine, null where nobody can tell. `line`: in the registry file."""

    form: ImageForm
    image: str
    digest: str | None
    architecture: str | None
    capabilities: list[str]
    present: bool | None
    line: int


class RuntimeView(BaseModel):
    """`images`: what the registry has. `usable`: whether this console can run it; then `image` and `source` say what and from where
    (`image` null: any Python will do), else `why` and `hint`, with the line to add."""

    runtime_id: str
    methods: list[str]
    images: list[ImageView]
    usable: bool
    image: str | None
    source: Source | None
    why: str
    hint: str


class RegistryProblemView(BaseModel):
    """`where`: file:line."""

    where: str
    text: str
    hint: str


class RuntimeList(BaseModel):
    """`form`: what this console's executor runs. `file`: the registry, null without one. `problems`: why its present version does not
    count; then what it said before does."""

    executor: str
    form: ImageForm
    file: str | None
    problems: list[RegistryProblemView]
    items: list[RuntimeView]


def overview_view(overview: Overview) -> RuntimeList:
    return RuntimeList(
        executor=overview.executor,
        form=overview.form,
        file=None if overview.file is None else str(overview.file),
        problems=[
            RegistryProblemView(where=item.where(), text=item.message, hint=item.hint) for item in overview.problems
        ],
        items=[_runtime(runtime) for runtime in overview.runtimes],
    )


def _runtime(runtime: SeenRuntime) -> RuntimeView:
    resolved = runtime.here if isinstance(runtime.here, ResolvedRuntime) else None
    refusal = runtime.here if isinstance(runtime.here, Refusal) else None
    return RuntimeView(
        runtime_id=runtime.runtime_id,
        methods=list(runtime.methods),
        images=[_image(image) for image in runtime.images],
        usable=resolved is not None,
        image=None if resolved is None else resolved.image,
        source=None if resolved is None else resolved.source,
        why="" if refusal is None else refusal.message,
        hint="" if refusal is None else refusal.hint,
    )


def _image(seen: SeenImage) -> ImageView:
    image = seen.registered
    return ImageView(
        form=image.form,
        image=image.image,
        digest=image.digest,
        architecture=image.architecture,
        capabilities=list(image.capabilities),
        present=seen.present,
        line=image.line,
    )
