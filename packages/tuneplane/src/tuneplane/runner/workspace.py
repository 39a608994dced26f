"""The temporary work dir of one machine: the lab, the reporter, the report directory, links to volumes. Gone when the run ends."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Callable, Dict

from tuneplane.adapters import Command
from tuneplane.contract.names import parse_owned_ref
from tuneplane.runner.capsule import Capsule
from tuneplane.runner.environment import LIB_DIR, REPORT_DIR, VOLUMES_DIR
from tuneplane.runner.failures import ENTRYPOINT_MISSING, RUNNER_FAILED, StartError, storage_error
from tuneplane.runner.library import write_library
from tuneplane.runner.package import unpack_package


def make_work_dir() -> str:
    """A fresh directory that only this user can read, below TMPDIR."""
    try:
        return os.path.realpath(tempfile.mkdtemp(prefix="tuneplane-"))
    except OSError as error:
        raise storage_error("no work dir can be made", error) from error


def fill_work_dir(capsule: Capsule, work_dir: str, warn: Callable[[str, str], None]) -> None:
    """Raises `StartError`."""
    unpack_package(capsule.package, capsule.package_digest, os.path.join(work_dir, "lab"))
    try:
        os.makedirs(os.path.join(work_dir, REPORT_DIR), mode=0o700)
        os.makedirs(capsule.out_dir, mode=0o755, exist_ok=True)
        if capsule.observability == "platform":
            write_library(os.path.join(work_dir, LIB_DIR))
        _link_volumes(capsule, os.path.join(work_dir, VOLUMES_DIR), warn)
    except OSError as error:
        raise storage_error("the work dir cannot be filled", error) from error


def write_command_files(capsule: Capsule, command: Command, work_dir: str) -> str:
    """The adapter's files; returns the directory to start in. Raises `StartError` when the experiment is not in the package."""
    files: Dict[str, str] = command.files
    for name, text in files.items():
        path = os.path.normpath(os.path.join(work_dir, name))
        if not path.startswith(work_dir + os.sep):
            raise StartError(RUNNER_FAILED, f"the adapter's file {name!r} leads out of the work dir")
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
        except OSError as error:
            raise storage_error(f"{name} cannot be written", error) from error
    cwd = os.path.join(work_dir, *command.cwd_relative.split("/"))
    if not os.path.isdir(cwd):
        raise StartError(ENTRYPOINT_MISSING, f"the package holds no {command.cwd_relative}")
    if not capsule.data.get("action"):  # else it is not the experiment that is started
        _check_entrypoint(capsule, cwd)
    return cwd


def remove_work_dir(work_dir: str) -> None:
    """Best effort: a file that a process of the trainer still writes may keep its directory."""
    shutil.rmtree(work_dir, ignore_errors=True)


def _check_entrypoint(capsule: Capsule, cwd: str) -> None:
    entrypoint = capsule.recipe["entrypoint"]
    if entrypoint["kind"] == "experiment" and not os.path.isfile(os.path.join(cwd, entrypoint["value"])):
        raise StartError(ENTRYPOINT_MISSING, f"the experiment has no {entrypoint['value']}, which this recipe starts")


def _link_volumes(capsule: Capsule, directory: str, warn: Callable[[str, str], None]) -> None:
    """`$VOLUMES_DIR/<name>` for each volume `<owner>/<name>` of the job, whoever owns it."""
    os.makedirs(directory, mode=0o755)
    for reference in (capsule.spec.get("data") or {}).get("volumes") or []:
        parsed = parse_owned_ref(reference)
        if parsed is None:
            warn("volume-missing", f"{reference!r} is no volume")
            continue
        source = os.path.join(str(capsule.paths["volumes_dir"]), parsed.owner, parsed.name)
        link = os.path.join(directory, parsed.name)
        if not os.path.isdir(source):
            warn("volume-missing", f"volume {reference} is not on this machine (looked at {source})")
        elif os.path.lexists(link):
            warn("volume-name", f"two volumes are called {parsed.name}; {reference} is left out")
        else:
            os.symlink(source, link)
