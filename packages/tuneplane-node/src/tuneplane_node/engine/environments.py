"""Build the Python environment that plays a training image in process mode, from a recipe's exact pins.

A virtual environment has its own path inside it, so it is built where it will stay; a mark written last says that it is
whole. Packages come through pip, whose own configuration decides from where. The environment holds nothing of ours.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tuneplane.contract.names import is_segment
from tuneplane.i18n import _
from tuneplane_node.engine.build_log import BuildLog, Progress, build_log
from tuneplane_node.engine.problems import NodeError
from tuneplane_node.engine.pythons import find_python
from tuneplane_node.engine.supervisor.records import read_record, write_record

BUILD_SECONDS = 3600.0
LOCK_SECONDS = 3600.0
READY = ".ready"
UNFINISHED = ".unfinished"
_TAIL_LINES = 30
_PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9][A-Za-z0-9.!+_-]*\Z", re.ASCII)
# These would send packages elsewhere or lend the environment ours; what says where packages come from stays.
_MISLEADING = (
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_USER",
    "PIP_ROOT",
    "PIP_REQUIREMENT",
)
_PIP_CAUSES = (
    ("environment-disk-full", re.compile(r"No space left on device|Disk quota exceeded")),
    ("environment-package-missing", re.compile(r"No matching distribution found|Could not find a version that satisfies")),
    ("environment-network", re.compile(r"NewConnectionError|ConnectTimeout|ReadTimeout|Name or service not known|Max retries exceeded|Network is unreachable")),
)  # fmt: skip
_CHECK = """
import importlib.metadata, json, re, sys
wrong = []
for pin in json.load(sys.stdin):
    name, _, version = re.sub(r"\\[.*\\]", "", pin).partition("==")
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        found = None
    # A machine may bring its own build of the same version: 2.13.0+cpu is 2.13.0.
    if found != version and (found or "").partition("+")[0] != version:
        wrong.append(f"{name}: {version} wanted, {found or 'nothing'} installed")
print("\\n".join(wrong))
"""


def build_environment(
    runtimes_dir: Path,
    runtime_id: str,
    requires: Sequence[str],
    python: str,
    progress: Progress,
    *,
    rebuild: bool = False,
    env: Mapping[str, str] | None = None,
) -> Path:
    """Make `<runtimes_dir>/<runtime_id>` hold CPython `python` (`3.11`) and exactly `requires`; returns that path.

    Safe to repeat, to kill and to run twice at once. One that is there with other pins is refused unless `rebuild`:
    a job may be using it. `progress` gets one line a phase and one a download, in the current language; all that pip
    said is in `<runtimes_dir>/.<runtime_id>.log`, whose path comes with the last lines of it when the build fails.
    Raises NodeError with a code `environment-…`, `requirement-not-exact` or `python-missing`.
    """
    if not is_segment(runtime_id):
        raise NodeError("setting-invalid", setting="runtime_id", value=runtime_id[:80], form="trl-1.16")
    for requirement in requires:
        if _PIN.match(requirement) is None:
            raise NodeError("requirement-not-exact", requirement=requirement[:200])
    target = runtimes_dir / runtime_id
    wanted = what_is_wanted(requires, python)
    environment = {key: value for key, value in (os.environ if env is None else env).items() if key not in _MISLEADING}
    try:
        runtimes_dir.mkdir(parents=True, exist_ok=True)
        with _locked(runtimes_dir / f".{runtime_id}.lock", runtime_id, progress) as lock:
            if not _is_ready(target, wanted, runtime_id, rebuild):
                with build_log(runtimes_dir / f".{runtime_id}.log", progress) as log:
                    _build(target, wanted, _Runner(runtime_id, environment, progress, log, lock))
    except OSError as problem:
        code = "environment-disk-full" if problem.errno in (errno.ENOSPC, errno.EDQUOT) else "environment-failed"
        raise NodeError(code, str(problem), runtime_id=runtime_id) from problem
    progress(_("Runtime {runtime_id} is ready: {path}").format(runtime_id=runtime_id, path=target))
    return target


def is_environment_ready(runtimes_dir: Path, runtime_id: str) -> bool:
    """Whether a whole environment is there, whatever its pins."""
    return is_segment(runtime_id) and (runtimes_dir / runtime_id / READY).exists()


def what_is_wanted(requires: Sequence[str], python: str) -> dict[str, Any]:
    """What the marks in an environment say of it; the order of pins means nothing."""
    pins = sorted(requires)
    digest = hashlib.sha256("\n".join([python, *pins]).encode()).hexdigest()
    return {"digest": digest, "python": python, "requires": pins}


def _is_ready(target: Path, wanted: Mapping[str, Any], runtime_id: str, rebuild: bool) -> bool:
    mark = _mark(target / READY)
    if mark is None:
        return False
    if mark.get("digest") == wanted["digest"] and _runs(target / "bin/python"):
        return True
    if not rebuild and _runs(target / "bin/python"):
        raise NodeError(
            "environment-differs",
            _("it was built for {digest}").format(digest=mark.get("digest")),
            runtime_id=runtime_id,
        )
    shutil.rmtree(target)  # its interpreter is gone, or it is to be built anew
    return False


def _mark(path: Path) -> dict[str, Any] | None:
    try:
        return read_record(path)
    except (OSError, ValueError):
        return None


def _build(target: Path, wanted: Mapping[str, Any], run: _Runner) -> None:
    interpreter = find_python(wanted["python"], run.env)
    requires, progress = wanted["requires"], run.progress
    if _mark(target / UNFINISHED) == wanted and _is_venv_of(target, interpreter):
        progress(_("Going on with the unfinished runtime in {path}").format(path=target))
        _forget_half_installed(target)
    else:
        shutil.rmtree(target, ignore_errors=True)
        progress(
            _("Making a Python {version} environment with {python}").format(
                version=wanted["python"], python=interpreter
            )
        )
        run([str(interpreter), "-m", "venv", str(target)])
        write_record(target / UNFINISHED, {**wanted})
    python = str(target / "bin/python")
    if requires:
        progress(
            _(
                "Installing {count} packages and what they need with pip (minutes the first time); its log: {path}"
            ).format(count=len(requires), path=run.log.path)
        )
        with tempfile.NamedTemporaryFile("w", suffix=".txt", prefix="tuneplane-requires-") as pins:
            pins.write("\n".join(requires) + "\n")
            pins.flush()
            run([python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar", "off", "-r", pins.name])  # fmt: skip
    missing = run([python, "-I", "-c", _CHECK], text=json.dumps(requires)).strip()
    if missing:
        raise NodeError("environment-failed", missing, runtime_id=run.runtime_id)
    write_record(target / READY, {**wanted, "interpreter": str(interpreter), "built_at": time.time()})
    (target / UNFINISHED).unlink(missing_ok=True)


class _Runner:
    """Runs one tool after another within one deadline, writing down what they say."""

    def __init__(self, runtime_id: str, env: Mapping[str, str], progress: Progress, log: BuildLog, lock: int) -> None:
        self.runtime_id = runtime_id
        self.env = env
        self.progress = progress
        self.log = log
        self._lock = lock
        self._deadline = time.monotonic() + BUILD_SECONDS

    def __call__(self, argv: Sequence[str], *, text: str = "") -> str:
        """Its last lines; raises NodeError with them when it fails or takes too long."""
        self.log.command(argv)
        with tempfile.TemporaryFile("w+") as given:
            given.write(text)
            given.seek(0)
            process = subprocess.Popen(
                argv,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**self.env, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
                # A tool that outlives us goes on holding the lock, so that nobody writes beside it.
                pass_fds=(self._lock,),
            )
        try:
            lines: list[str] = []
            for line in self._lines(process):
                lines.append(line)
                self.log.write(line)
                del lines[:-_TAIL_LINES]
            code = process.wait(timeout=max(1.0, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise NodeError(
                "environment-failed",
                _("not done within {seconds:.0f} s").format(seconds=BUILD_SECONDS),
                runtime_id=self.runtime_id,
            ) from None
        finally:
            _end(process)
        output = "\n".join(lines)
        if code:
            raise self._error(output)
        return output

    def _lines(self, process: subprocess.Popen[bytes]) -> Iterator[str]:
        assert process.stdout is not None
        buffer = b""
        with process.stdout as pipe:
            while True:
                ready, _writable, _failed = select.select([pipe], [], [], max(0.0, self._deadline - time.monotonic()))
                if not ready:
                    raise subprocess.TimeoutExpired(process.args, BUILD_SECONDS)
                piece = os.read(pipe.fileno(), 65536)
                if not piece:
                    break
                *whole, buffer = (buffer + piece).split(b"\n")
                yield from (line.decode(errors="replace").rstrip() for line in whole)
        if buffer:
            yield buffer.decode(errors="replace").rstrip()

    def _error(self, output: str) -> NodeError:
        code = next((code for code, words in _PIP_CAUSES if words.search(output)), "environment-failed")
        whole = _("All that it said: {path}").format(path=self.log.path)
        return NodeError(code, f"{output[-1500:]}\n{whole}", runtime_id=self.runtime_id)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Also when we leave by an exception: pip and what it started are in a session of their own."""
    if process.poll() is None:
        os.killpg(process.pid, 9)
        process.wait()


@contextmanager
def _locked(path: Path, runtime_id: str, progress: Progress) -> Iterator[int]:
    """One build of a runtime at a time; the others wait and then find it ready."""
    with path.open("a") as lock:
        deadline, told = time.monotonic() + LOCK_SECONDS, False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise NodeError("environment-busy", runtime_id=runtime_id, seconds=round(LOCK_SECONDS)) from None
                if not told:
                    progress(
                        _("Another process is building {runtime_id}; waiting for it").format(runtime_id=runtime_id)
                    )
                    told = True
                time.sleep(0.2)
        yield lock.fileno()


def _is_venv_of(target: Path, interpreter: Path) -> bool:
    """Whether an environment was made with this interpreter and has pip."""
    try:
        settings = (target / "pyvenv.cfg").read_text()
    except OSError:
        return False
    home = next((line.partition("=")[2].strip() for line in settings.splitlines() if line.startswith("home")), "")
    return home == str(interpreter.parent) and _runs(target / "bin/python", "import pip")


def _forget_half_installed(target: Path) -> None:
    """pip writes RECORD last: a package without it was being written when something killed pip, which would now
    believe that it is installed."""
    for folder in target.glob("lib/python*/site-packages/*.dist-info"):
        if not (folder / "RECORD").exists():
            shutil.rmtree(folder)


def _runs(python: Path, code: str = "") -> bool:
    try:
        return subprocess.run([python, "-I", "-c", code], capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
