"""`tp job download`: files of a job, resumed where they stopped, checked against their SHA-256."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

import click

from tuneplane.cli.job.ids import find_job
from tuneplane.cli.options import WholeNumber, job_argument, json_option, server_option, tp_command
from tuneplane.cli.session import open_console
from tuneplane.cli.text import note, write_json
from tuneplane.client.downloads import PART_SUFFIX, download, safe_target
from tuneplane.client.errors import ConsoleError, NotFoundError
from tuneplane.client.http import Progress
from tuneplane.client.types import ArtifactFile, Artifacts
from tuneplane.i18n import _, ngettext
from tuneplane.lab.plan import show_size

NEWEST = "latest"


@tp_command(
    "tp job download 06fq9k2m --checkpoint latest --output model",
    "tp job download 06fq9k2m 'checkpoints/*.json'",
    about=_(
        "Without patterns: every file of the last attempt. Files keep their paths below the directory;"
        " what is there already and right is not fetched again."
    ),
)
@job_argument
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1)
@click.option(
    "--output",
    "-o",
    "target",
    type=click.Path(file_okay=False, path_type=Path),
    help=_("Directory; default: ./<run id>."),
)
@click.option("--checkpoint", metavar="STEP|latest", default=None, help=_("Only this checkpoint."))
@click.option("--attempt", type=WholeNumber(1), default=None, help=_("Of this attempt."))
@server_option
@json_option
def command(
    job: str,
    patterns: tuple[str, ...],
    target: Path | None,
    checkpoint: str | None,
    attempt: int | None,
    server: str | None,
    as_json: bool,
) -> None:
    with open_console(server) as console:
        run = find_job(console, job)
        files = select(console.artifacts(run), patterns, checkpoint, attempt)
        directory = target or Path(run)
        _check_space(directory, files)
        total = sum(file["size"] for file in files)
        with _progress(total, enabled=not as_json) as progress:
            done = [download(console, run, file, directory, progress) for file in files]
    if as_json:
        items = [
            {"path": str(item.path), "size": item.size, "fresh": item.fresh, "verified": item.verified} for item in done
        ]
        write_json({"items": items})
        return
    fresh = [item for item in done if item.fresh]
    text = ngettext("{count} file, {size}, in {path}", "{count} files, {size}, in {path}", len(done))
    note(text.format(count=len(done), size=show_size(total), path=directory))
    if len(fresh) < len(done):
        note(_("{count} were there already").format(count=len(done) - len(fresh)))
    unchecked = sum(1 for item in done if not item.verified)
    if unchecked:
        note(_("{count} have no SHA-256 on the console yet and were checked by size only").format(count=unchecked))


def select(
    found: Artifacts, patterns: tuple[str, ...], checkpoint: str | None, attempt: int | None
) -> list[ArtifactFile]:
    """The files asked for. Raises `NotFoundError` when there are none."""
    wanted_dir = ""
    if checkpoint is not None:
        attempt, wanted_dir = _checkpoint(found, checkpoint, attempt)
    if attempt is None:
        attempt = max((file.get("attempt") or 1 for file in found["files"]), default=None)
    files = [
        file
        for file in found["files"]
        if (attempt is None or (file.get("attempt") or 1) == attempt)
        and (not wanted_dir or file["path"].startswith(f"{wanted_dir}/"))
        and (not patterns or any(fnmatchcase(file["path"], pattern) for pattern in patterns))
    ]
    if not files:
        raise NotFoundError(404, _("no file fits"), _("tp job artifacts shows what there is"), "not-found")
    return files


def _checkpoint(found: Artifacts, wanted: str, attempt: int | None) -> tuple[int, str]:
    """(attempt, directory) of a checkpoint by step, or of the newest complete one."""
    items = [item for item in found["checkpoints"] if attempt is None or (item.get("attempt") or 1) == attempt]
    if wanted == NEWEST:
        items = [item for item in items if item["complete"]]
    elif wanted.isascii() and wanted.isdigit():
        items = [item for item in items if item["step"] == int(wanted)]
    else:
        raise click.BadParameter(_("write the number of a step, or latest"), param_hint="--checkpoint")
    if not items:
        message = _("there is no checkpoint {wanted}").format(wanted=wanted)
        raise NotFoundError(404, message, _("tp job artifacts shows what there is"), "not-found")
    best = max(items, key=lambda item: (item.get("attempt") or 1, item["step"]))
    return best.get("attempt") or 1, best["path"].rstrip("/")


def _check_space(directory: Path, files: list[ArtifactFile]) -> None:
    """Stop before the first byte when the disk cannot hold what is still missing."""
    missing = 0
    for file in files:
        target = safe_target(directory, file["path"])
        part = target.with_name(target.name + PART_SUFFIX)
        have = next((path.stat().st_size for path in (target, part) if path.is_file()), 0)
        missing += max(0, file["size"] - have)
    place = next(path for path in (directory.absolute(), *directory.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    if missing > free:
        raise ConsoleError(
            _("{size} are missing and {path} has {free} free").format(
                size=show_size(missing), path=place, free=show_size(free)
            ),
            _("choose another disk with --output"),
        )


@contextmanager
def _progress(total: int, *, enabled: bool) -> Iterator[Progress | None]:
    if not enabled or not sys.stderr.isatty():
        yield None
        return
    from tuneplane.cli.progress import byte_bar

    with byte_bar(_("downloading"), total) as advance:
        yield advance
