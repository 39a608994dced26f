"""Find a CPython of a given minor version that can make virtual environments. Never a pyenv shim: those fail."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tuneplane.i18n import _
from tuneplane_node.engine.problems import NodeError

PROBE_SECONDS = 20
# A build without one of these makes environments that break later; ensurepip is a package of its own on Debian.
_PROBE = (
    "import ctypes, ensurepip, platform, sqlite3, ssl, sys, venv, zlib;"
    "print(platform.python_implementation(), '%d.%d' % sys.version_info[:2])"
)


def find_python(version: str, env: Mapping[str, str] | None = None) -> Path:
    """The first working interpreter: PATH, the usual folders, pyenv's real ones, uv's. Raises NodeError `python-missing`."""
    if re.fullmatch(r"3\.\d{1,2}", version) is None:
        raise NodeError("setting-invalid", setting="python", value=version[:40], form="3.11")
    tried = []
    for candidate in _candidates(version, os.environ if env is None else env):
        if candidate in tried:
            continue
        tried.append(candidate)
        if _works(candidate, version):
            return candidate
    raise NodeError("python-missing", _("looked at: {paths}").format(paths=", ".join(map(str, tried))), version=version)


def _candidates(version: str, env: Mapping[str, str]) -> Iterator[Path]:
    name = f"python{version}"
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        if folder and Path(folder).name != "shims":
            yield Path(folder) / name
    yield from (Path(folder) / name for folder in ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"))
    home = Path(env.get("HOME") or Path.home())
    pyenv = Path(env.get("PYENV_ROOT") or home / ".pyenv")
    uv = Path(env.get("UV_PYTHON_INSTALL_DIR") or home / ".local/share/uv/python")
    for pattern, root in ((f"versions/{version}.*/bin/{name}", pyenv), (f"cpython-{version}.*/bin/{name}", uv)):
        yield from sorted(root.glob(pattern), key=_newest_first)


def _newest_first(path: Path) -> list[int]:
    return [-int(number) for number in re.findall(r"\d+", path.parents[1].name)]


def _works(python: Path, version: str) -> bool:
    if not python.exists():
        return False
    try:
        answer = subprocess.run(
            [python, "-I", "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.stdout.strip() == f"CPython {version}"
