"""Checks the files of the registry against their digests. A file may have 20 GB and lie on a network filesystem: it tells how far it is."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.quoted_words import system_words
from tuneplane_server.features.runtimes.entries import RegisteredImage, Registry

CHUNK = 8 * 1024 * 1024


@dataclass(frozen=True)
class Verdict:
    """`unread`: `why` says what is in the way. `digest`: what the file has."""

    runtime_id: str
    image: RegisteredImage
    state: Literal["same", "different", "unread"]
    digest: str = ""
    why: str = ""


def files_of(registry: Registry, runtime_id: str | None) -> list[tuple[str, RegisteredImage]]:
    """(runtime id, image) of every image file that has a digest, of one runtime or of all. Raises `RefusedError` where there is nothing
    to compare."""
    if runtime_id is not None and runtime_id not in registry.runtimes:
        message = _("the runtime registry has no “{runtime_id}”").format(runtime_id=runtime_id[:80])
        hint = _("there are: {names}").format(names=", ".join(sorted(registry.runtimes)) or "-")
        raise RefusedError([Refusal("runtime-unresolved", message, hint)])
    found = [
        (runtime.runtime_id, image)
        for runtime in registry.runtimes.values()
        if runtime_id in (None, runtime.runtime_id)
        for image in runtime.images.values()
        if image.is_file and image.digest is not None
    ]
    if not found:
        message = _("no file of the registry has a digest to compare with")
        hint = _("add digest: beside path:, with what sha256sum prints for the file")
        raise RefusedError([Refusal("runtime-unresolved", message, hint)])
    return found


def verify(runtime_id: str, image: RegisteredImage, progress: Callable[[int, int], None]) -> Verdict:
    """Reads the whole file. `progress(bytes read since the last call, bytes of the file)`."""
    hashed = hashlib.sha256()
    try:
        for chunk, size in _chunks(image.image):
            hashed.update(chunk)
            progress(len(chunk), size)
    except OSError as error:
        return Verdict(runtime_id, image, "unread", why=system_words(error))
    digest = hashed.hexdigest()
    return Verdict(runtime_id, image, "same" if digest == image.digest else "different", digest)


def _chunks(path: str) -> Iterator[tuple[bytes, int]]:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a path that others gave, opened as it is
        size = os.fstat(file.fileno()).st_size
        while chunk := file.read(CHUNK):
            yield chunk, size
