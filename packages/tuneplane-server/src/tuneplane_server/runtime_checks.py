"""`tuneplane-server runtime verify`: the files of the runtime registry against their digests, with a bar for each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane_server.features.runtimes.entries import RegisteredImage
from tuneplane_server.features.runtimes.reading import parse_registry, read_bytes
from tuneplane_server.features.runtimes.verifying import Verdict, files_of, verify
from tuneplane_server.settings import Settings


def verify_files(settings: Settings, runtime_id: str | None, say: Callable[[str], None]) -> bool:
    """Whether every file is what its digest says. Raises `RefusedError`: no registry, a bad one, or nothing to compare."""
    file = settings.runtime_registry_file
    if file is None:
        message = _("this console has no runtime registry")
        hint = _("TUNEPLANE_RUNTIME_REGISTRY_FILE names it")
        raise RefusedError([Refusal("runtime-registry", message, hint)])
    registry = parse_registry(read_bytes(file), file)
    verdicts = [_watched(name, image) for name, image in files_of(registry, runtime_id)]
    for verdict in verdicts:
        say(_line(verdict, file))
    return all(verdict.state == "same" for verdict in verdicts)


def _watched(runtime_id: str, image: RegisteredImage) -> Verdict:
    """With a bar on standard error, where that is a terminal."""
    label = f"{runtime_id} ({image.form})"
    with click.progressbar(length=_size(image), label=label, file=sys.stderr) as bar:
        return verify(runtime_id, image, lambda read, _size: bar.update(read))


def _size(image: RegisteredImage) -> int:
    try:
        return Path(image.image).stat().st_size
    except OSError:
        return 0  # the verdict says why


def _line(verdict: Verdict, file: Path) -> str:
    what, where = f"{verdict.runtime_id} {verdict.image.image}", f"{file}:{verdict.image.line}"
    if verdict.state == "same":
        return _("same       {what}").format(what=what)
    if verdict.state == "different":
        return _("different  {what}: sha256:{digest}, not what {where} says").format(
            what=what, digest=verdict.digest, where=where
        )
    return _("unread     {what}: {why}").format(what=what, why=verdict.why)
