"""Write what a console streams into a file of the user's: whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tuneplane.client.errors import ConsoleError
from tuneplane.i18n import _
from tuneplane.quoted_words import system_words

FORMS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}


def form_of(path: str) -> str:
    """`csv`, `json` or `parquet`, by the ending of a file's name; raises `click.BadParameter`."""
    form = FORMS.get(Path(path).suffix.lower())
    if form is None:
        import click

        raise click.BadParameter(_("the name must end in .csv, .json, .jsonl or .parquet"), param_hint="--export")
    return form


def save(path: str, chunks: Iterable[bytes]) -> int:
    """Put the bytes into the file `path`, which they replace when they are all there; how many they were."""
    target, size = Path(path), 0
    try:
        handle, part = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
        try:
            with os.fdopen(handle, "wb") as out:
                for chunk in chunks:
                    size += len(chunk)
                    out.write(chunk)
                out.flush()
                os.fsync(out.fileno())
            mask = os.umask(0)
            os.umask(mask)
            Path(part).chmod(0o666 & ~mask)  # as if the file had been made with its own name
            Path(part).replace(target)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConsoleError(_("{path} cannot be written: {why}").format(path=target, why=system_words(error))) from None
    return size
