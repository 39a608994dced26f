"""What the runtime registry file says, as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

type ImageForm = Literal["oci", "sif", "sqsh", "bundle", "environment"]
FORMS: tuple[ImageForm, ...] = ("oci", "sif", "sqsh", "bundle", "environment")
FILE_ENDINGS: dict[ImageForm, tuple[str, ...]] = {"sif": (".sif",), "sqsh": (".sqsh", ".sqfs", ".squashfs")}
# As OCI names them, and what `uname -m` says of the same machines.
ARCHITECTURES = ("amd64", "arm64", "ppc64le", "riscv64", "s390x")
_OTHER_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class RegisteredImage:
    """`image`: an OCI reference, or an absolute path for every other form. `digest`: SHA-256 in hex, of the file or of the OCI manifest.
    `line`: 1-based, in the registry file."""

    form: ImageForm
    image: str
    digest: str | None = None
    architecture: str | None = None
    capabilities: tuple[str, ...] = ()
    line: int = 0

    @property
    def is_file(self) -> bool:
        return self.form in FILE_ENDINGS


@dataclass(frozen=True)
class RegisteredRuntime:
    """`plain`: the entry is one text, so that another form needs it rewritten as a mapping."""

    runtime_id: str
    images: Mapping[ImageForm, RegisteredImage]
    line: int = 0
    plain: bool = False


@dataclass(frozen=True)
class Registry:
    """`digest`: SHA-256 of the file's bytes; empty when no file is named."""

    runtimes: Mapping[str, RegisteredRuntime] = field(default_factory=dict)
    digest: str = ""

    def images(self) -> Iterator[RegisteredImage]:
        for runtime in self.runtimes.values():
            yield from runtime.images.values()


def form_of(image: str) -> ImageForm:
    """What a text by itself names: a reference, or by its ending a SIF, a SQSH, else the directory of a Python environment."""
    if not image.startswith("/"):
        return "oci"
    return next((form for form, endings in FILE_ENDINGS.items() if image.endswith(endings)), "environment")


def architecture_of(machine: str) -> str | None:
    """`x86_64` and `amd64` -> `amd64`; None for what we do not know."""
    name = _OTHER_NAMES.get(machine.lower(), machine.lower())
    return name if name in ARCHITECTURES else None
