"""runner.pex: the same bytes everywhere, and nothing in it that an image would have to bring."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tuneplane.runner.archive import build_runner


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    code = "import sys; from tuneplane.runner.archive import build_runner; sys.stdout.buffer.write(build_runner())"
    environment = {**os.environ, "TZ": "Asia/Shanghai", "PYTHONHASHSEED": "7"}
    other = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, cwd=tmp_path)
    assert other.stdout == build_runner()


def test_it_holds_what_runs_in_the_image_and_no_more() -> None:
    archive = zipfile.ZipFile(io.BytesIO(build_runner()))
    names = archive.namelist()
    assert names == sorted(names)
    assert all(name.endswith(".py") for name in names)
    assert {
        "__main__.py",
        "tuneplane/report/__init__.py",
        "tuneplane/adapters/__init__.py",
        "tuneplane/runner/main.py",
    } <= set(names)
    contract = {name for name in names if name.startswith("tuneplane/contract/")}
    assert contract == {f"tuneplane/contract/{name}.py" for name in ("__init__", "names", "words")}
    assert not [name for name in names if "/cli/" in name or "/client/" in name or "/lab/" in name]
    assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_it_runs_isolated_without_site(tmp_path: Path) -> None:
    path = tmp_path / "runner.pex"
    path.write_bytes(build_runner())
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", str(path)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 78
    assert "usage" in done.stderr
    assert "Traceback" not in done.stderr
