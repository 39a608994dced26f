"""Building the environment that plays a training image: real interpreters, real pip, wheels from its own configuration."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.services.packages import require_packages
from tests.services.plugin import unavailable
from tests.services.process import ServiceMissingError
from tests.tuneplane_node.wheels import make_wheel
from tuneplane_node.engine import NodeError, build_environment, is_environment_ready
from tuneplane_node.engine.build_log import build_log, in_short
from tuneplane_node.engine.environments import READY, UNFINISHED, what_is_wanted
from tuneplane_node.engine.pythons import find_python
from tuneplane_node.engine.supervisor.records import write_record

pytestmark = pytest.mark.services  # real interpreters and real pip take their time
PYTHON = "3.11"  # what the trl runtimes ask for


@pytest.fixture(scope="module")
def fresh_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty environment with pip, made once: making one takes seconds, and most tests are not about that."""
    try:
        require_packages("python311")
    except ServiceMissingError as problem:
        unavailable(problem)
    path = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([find_python(PYTHON), "-m", "venv", path], check=True, timeout=100)
    return path


@pytest.fixture
def wheelhouse(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    make_wheel(folder, "trainer", "1.0", requires="helper")
    make_wheel(folder, "helper", "2.0")
    make_wheel(folder, "helper", "2.1")
    make_wheel(folder, "engine", "3.0+cpu")
    return folder


@pytest.fixture
def env(tmp_path: Path, wheelhouse: Path) -> dict[str, str]:
    """A machine whose pip is told by its own configuration file where wheels are."""
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nno-index = true\nfind-links = {wheelhouse}\n")
    machine = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
    return {**machine, "PIP_CONFIG_FILE": str(config)}


class Builder:
    """Builds below one directory, in an environment that was begun already."""

    def __init__(self, runtimes: Path, env: dict[str, str], fresh_venv: Path) -> None:
        self.runtimes = runtimes
        self.env = env
        self.lines: list[str] = []
        self._fresh_venv = fresh_venv

    def begin(self, *requires: str) -> Path:
        """Leave an environment as a build that was killed before pip did anything leaves it."""
        target = self.runtimes / "trl-1.16"
        shutil.copytree(self._fresh_venv, target, symlinks=True)
        write_record(target / UNFINISHED, what_is_wanted(requires, PYTHON))
        return target

    def __call__(self, *requires: str, **options: Any) -> Path:
        values: dict[str, Any] = {"runtime_id": "trl-1.16", "progress": self.lines.append, "env": self.env, **options}
        if not self.runtimes.exists():
            self.begin(*requires)
        return build_environment(self.runtimes, requires=requires, python=PYTHON, **values)


@pytest.fixture
def build(tmp_path: Path, env: dict[str, str], fresh_venv: Path) -> Builder:
    return Builder(tmp_path / "runtimes", env, fresh_venv)


def output_of(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def test_an_environment_holds_the_pins_and_nothing_of_ours(build: Builder) -> None:
    build.runtimes.mkdir()  # with nothing in it
    path = build("trainer==1.0", "helper==2.0")
    assert path.name == "trl-1.16"
    assert is_environment_ready(path.parent, "trl-1.16")
    assert output_of(path / "bin/trainer") == "trainer 1.0"
    assert output_of(path / "bin/helper") == "helper 2.0"
    code = "import importlib.util as u, sys; print(sys.version_info[:2], [n for n in ('tuneplane', 'tuneplane_node', 'httpx2') if u.find_spec(n)])"
    assert output_of(path / "bin/python", "-c", code) == "(3, 11) []"
    assert sorted(entry.name for entry in path.parent.iterdir()) == [".trl-1.16.lock", ".trl-1.16.log", "trl-1.16"]


def test_the_person_who_waits_reads_a_line_a_phase_and_the_log_holds_all_that_pip_said(
    build: Builder, env: dict[str, str], wheelhouse: Path, tmp_path: Path
) -> None:
    (tmp_path / "pip.conf").write_text(
        f"[global]\nno-index = true\nfind-links = {wheelhouse}\n  {tmp_path}/not-there\n"  # pip warns of this one
    )
    path = build("trainer==1.0", "helper==2.0")
    log = path.parent / ".trl-1.16.log"
    assert [line.partition(":")[0] for line in build.lines] == [
        f"Going on with the unfinished runtime in {path}",
        "Installing 2 packages and what they need with pip (minutes the first time); its log",
        "Unpacking 2 packages",
        "Runtime trl-1.16 is ready",
    ]
    assert str(log) in build.lines[1]
    said = log.read_text()
    assert "not-there" in said
    assert "Successfully installed helper-2.0 trainer-1.0" in said
    assert "-m pip install" in said
    assert log.stat().st_mode & 0o777 == 0o600


def test_downloads_are_told_by_package_and_size(build: Builder, wheelhouse: Path, tmp_path: Path) -> None:
    with served(wheelhouse, tmp_path / "index") as address:
        (tmp_path / "pip.conf").write_text(f"[global]\nindex-url = {address}\nno-cache-dir = true\n")
        build("trainer==1.0")
    told = [line for line in build.lines if line.startswith("Downloading")]
    assert [line.partition(" (")[0] for line in told] == ["Downloading trainer 1.0", "Downloading helper 2.1"]
    assert all(line.endswith(("B)", "kB)")) for line in told)


@contextmanager
def served(wheels: Path, index: Path) -> Iterator[str]:
    """The address of a package index with these wheels."""
    for wheel in wheels.glob("*.whl"):
        page = index / wheel.name.partition("-")[0] / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        with page.open("a") as links:
            links.write(f'<a href="{wheel.name}">{wheel.name}</a>\n')
        shutil.copy(wheel, page.parent)
    handler = partial(SimpleHTTPRequestHandler, directory=str(index))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def test_a_log_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuneplane_node.engine.build_log.LOG_BYTES", 20)
    with build_log(tmp_path / "log", lambda _line: None) as log:
        for _line in range(10):
            log.write("12345678")
    assert (tmp_path / "log").read_text() == "12345678\n12345678\n12"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("  Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl (888.1 MB)", "Downloading torch 2.13.0 (888.1 MB)"),
        ("Downloading /files/ruamel_yaml-0.18-1-py3-none-any.whl (9 kB)", "Downloading ruamel_yaml 0.18 (9 kB)"),
        ("  Downloading rouge-score-0.1.2.tar.gz (17 kB)", "Downloading rouge-score 0.1.2 (17 kB)"),
        ("  Downloading trl-1.16.0-py3-none-any.whl.metadata (11 kB)", ""),
        ("  Using cached trl-1.16.0-py3-none-any.whl (600 kB)", ""),
        ("Collecting trl==1.16.0", ""),
        ("WARNING: Location 'x' is ignored", ""),
        ("[notice] A new release of pip is available: 23.0.1 -> 26.0", ""),
        ("Building wheels for collected packages: rouge-score, slow", "Compiling rouge-score, slow"),
        ("Installing collected packages: a, b, c", "Unpacking 3 packages"),
    ],
)  # fmt: skip
def test_a_line_of_pip_in_short(line: str, told: str) -> None:
    assert in_short(line) == told


def test_building_again_changes_nothing(build: Builder) -> None:
    path = build("trainer==1.0", "helper==2.0")
    made = (path / ".ready").stat().st_mtime_ns
    build.lines.clear()
    assert build("helper==2.0", "trainer==1.0") == path  # the order of pins means nothing
    assert (path / ".ready").stat().st_mtime_ns == made
    assert len(build.lines) == 1  # that it is ready


def test_a_build_of_the_same_version_of_another_kind_will_do(build: Builder) -> None:
    path = build("engine==3.0")
    assert output_of(path / "bin/engine") == "engine 3.0+cpu"


def test_other_pins_are_refused_until_a_rebuild_is_asked_for(build: Builder) -> None:
    path = build("trainer==1.0", "helper==2.0")
    with pytest.raises(NodeError) as refusal:
        build("helper==2.1")
    assert refusal.value.code == "environment-differs"
    assert "runtime build trl-1.16 --rebuild" in refusal.value.hint()
    assert output_of(path / "bin/helper") == "helper 2.0"
    assert output_of(build("helper==2.1", rebuild=True) / "bin/helper") == "helper 2.1"
    assert not (path / "bin/trainer").exists()


def test_an_environment_whose_interpreter_is_gone_is_built_anew(build: Builder) -> None:
    path = build("helper==2.0")
    (path / "bin/python").unlink()
    (path / "bin/python").symlink_to("/not/there")
    assert output_of(build("helper==2.0") / "bin/python", "-c", "print(7)") == "7"


def test_an_unfinished_environment_is_not_ready_and_is_finished(build: Builder) -> None:
    path = build("trainer==1.0", "helper==2.0")
    write_record(path / UNFINISHED, what_is_wanted(["trainer==1.0", "helper==2.0"], PYTHON))
    (path / READY).unlink()
    (site,) = path.glob("lib/python*/site-packages")
    # pip was killed while it wrote `helper`: everything but the record and the command.
    (site / "helper-2.0.dist-info/RECORD").unlink()
    (path / "bin/helper").unlink()
    assert not is_environment_ready(path.parent, "trl-1.16")
    again = build("trainer==1.0", "helper==2.0")
    assert any("unfinished" in line for line in build.lines)
    assert output_of(again / "bin/helper") == "helper 2.0"
    assert is_environment_ready(path.parent, "trl-1.16")
    assert not (path / UNFINISHED).exists()


def test_an_unfinished_environment_of_other_pins_is_not_built_upon(build: Builder) -> None:
    target = build.begin("other==1.0")
    (target / "leftover").touch()
    build("helper==2.0")
    assert not (target / "leftover").exists()


def test_two_builds_at_once_make_one(build: Builder) -> None:
    build.begin("helper==2.0")
    told: list[list[str]] = [[], []]
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda lines: build("helper==2.0", progress=lines.append), told))
    assert results[0] == results[1]
    assert sum("Installing" in line for lines in told for line in lines if "with pip" in line) == 1
    assert sum("waiting" in line for lines in told for line in lines) == 1


def test_a_killed_build_is_resumed_and_nobody_writes_beside_its_pip(
    build: Builder, wheelhouse: Path, tmp_path: Path
) -> None:
    """The builder is killed while pip runs; pip goes on, and the next build waits until it has ended."""
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    make_slow_package(wheelhouse, fifo, tmp_path / "go")
    build.begin("slow==1.0")
    script = f"""
from pathlib import Path
from tuneplane_node.engine import build_environment
build_environment(Path({str(build.runtimes)!r}), "trl-1.16", ["slow==1.0"], {PYTHON!r}, print)
"""
    with (tmp_path / "builder.log").open("w") as log:
        builder = subprocess.Popen([sys.executable, "-c", script], env=build.env, stdout=log, stderr=log)
    gate = open_when_read(fifo, builder, tmp_path / "builder.log")
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    waiting = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(build, "slow==1.0", progress=lambda line: waiting.set() if "waiting" in line else None)
        assert waiting.wait(60)
        assert not second.done()
        (tmp_path / "go").touch()
        os.write(gate, b"go")
        os.close(gate)
        python = second.result() / "bin/python"
    assert output_of(python, "-c", "from importlib.metadata import version; print(version('slow'))") == "1.0"


def make_slow_package(wheelhouse: Path, fifo: Path, go: Path) -> None:
    """A source package whose build, unless `go` exists, stops until something is written to `fifo`."""
    setup = (
        f"import os\nos.path.exists({str(go)!r}) or open({str(fifo)!r}).read()\n"
        "from setuptools import setup\nsetup(name='slow', version='1.0', py_modules=[])\n"
    )
    with tarfile.open(wheelhouse / "slow-1.0.tar.gz", "w:gz") as tar:
        for name, text in (("setup.py", setup), ("PKG-INFO", "Metadata-Version: 1.0\nName: slow\nVersion: 1.0\n")):
            info = tarfile.TarInfo(f"slow-1.0/{name}")
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))


def open_when_read(fifo: Path, process: subprocess.Popen[bytes], log: Path) -> int:
    """The fifo open for writing, once somebody reads it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"pip never came to the package:\n{log.read_text()}")


@pytest.mark.parametrize(
    "pin",
    [
        "trl",
        "trl>=1.0",
        "trl==1.*",
        "trl == 1.0",
        "-r other.txt",
        "trl @ file:///x/y",
        "trl==1.0; python_version>'3'",
        "--find-links=/x",
        "trl==1.0\nother==2",
    ],
)
def test_a_pin_that_is_not_exact_is_refused(build: Builder, pin: str) -> None:
    with pytest.raises(NodeError) as refusal:
        build(pin)
    assert refusal.value.code == "requirement-not-exact"


@pytest.mark.parametrize("runtime_id", ["", "..", "../x", "a/b", ".hidden", "x" * 64])
def test_a_runtime_id_that_is_no_name_is_refused(build: Builder, runtime_id: str) -> None:
    with pytest.raises(NodeError) as refusal:
        build("helper==2.0", runtime_id=runtime_id)
    assert refusal.value.code == "setting-invalid"


def test_a_package_that_is_nowhere_is_told_with_pip_s_words(build: Builder, tmp_path: Path) -> None:
    with pytest.raises(NodeError) as problem:
        build("nowhere==1.0")
    assert problem.value.code == "environment-package-missing"
    assert "nowhere==1.0" in problem.value.detail
    log = tmp_path / "runtimes/.trl-1.16.log"
    assert problem.value.detail.endswith(str(log))
    assert "nowhere==1.0" in log.read_text()
    assert not is_environment_ready(tmp_path / "runtimes", "trl-1.16")


def test_an_index_that_cannot_be_reached_is_told(build: Builder, env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = http://127.0.0.1:9/index\nretries = 0\ntimeout = 1\n")
    with pytest.raises(NodeError) as problem:
        build("nowhere==1.0", env=env)
    assert problem.value.code in ("environment-network", "environment-package-missing")
    assert "127.0.0.1" in problem.value.detail or "nowhere" in problem.value.detail


def test_a_package_that_hides_another_version_is_not_called_ready(
    build: Builder, wheelhouse: Path, tmp_path: Path
) -> None:
    """The index gives a file named 9.0 whose metadata say otherwise: pip refuses it, and so do we."""
    make_wheel(wheelhouse, "liar", "8.0").rename(wheelhouse / "liar-9.0-py3-none-any.whl")
    with pytest.raises(NodeError):
        build("liar==9.0")
    assert not is_environment_ready(tmp_path / "runtimes", "trl-1.16")


def test_a_directory_that_cannot_be_written_is_told(build: Builder, tmp_path: Path) -> None:
    build.runtimes.write_text("a file where the directory should be")
    with pytest.raises(NodeError) as problem:
        build("helper==2.0")
    assert problem.value.code == "environment-failed"


def test_variables_that_would_lend_our_packages_are_not_passed_on(
    build: Builder, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/helper.py").write_text("raise SystemExit('ours')")
    path = build(
        "helper==2.0",
        env={
            **env,
            "PYTHONPATH": str(tmp_path / "ours"),
            "PIP_TARGET": str(tmp_path / "elsewhere"),
            "VIRTUAL_ENV": sys.prefix,
        },
    )
    assert output_of(path / "bin/helper") == "helper 2.0"
    assert not (tmp_path / "elsewhere").exists()


def test_an_interpreter_is_found_where_they_are(tmp_path: Path) -> None:
    found = find_python(PYTHON)
    assert output_of(found, "-c", "import sys; print('%d.%d' % sys.version_info[:2])") == PYTHON


def test_a_shim_is_no_interpreter_and_a_broken_one_is_passed_over(tmp_path: Path) -> None:
    real = find_python(PYTHON)
    for folder in ("shims", "broken"):
        (tmp_path / folder).mkdir()
        fake = tmp_path / folder / f"python{PYTHON}"
        fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/{folder}/asked\nexit 127\n")
        fake.chmod(0o755)
    env = {"PATH": f"{tmp_path}/shims:{tmp_path}/broken", "HOME": str(tmp_path), "PYENV_ROOT": str(tmp_path / "pyenv")}
    versions = tmp_path / "pyenv/versions"
    for version in ("3.11.2", "3.11.10"):
        (versions / version / "bin").mkdir(parents=True)
        (versions / version / f"bin/python{PYTHON}").symlink_to(real)
    found = find_python(PYTHON, env)
    assert not (tmp_path / "shims/asked").exists()
    assert (tmp_path / "broken/asked").exists()
    assert found in (
        Path(f"/usr/bin/python{PYTHON}"),
        Path(f"/usr/local/bin/python{PYTHON}"),
        versions / f"3.11.10/bin/python{PYTHON}",
    )


def test_an_interpreter_that_is_nowhere_is_told_with_what_was_tried(tmp_path: Path) -> None:
    with pytest.raises(NodeError) as problem:
        find_python("3.99", {"PATH": str(tmp_path), "HOME": str(tmp_path)})
    assert problem.value.code == "python-missing"
    assert str(tmp_path / "python3.99") in problem.value.detail
    assert "3.99" in problem.value.hint()


@pytest.mark.parametrize("version", ["3", "3.11.2", "2.7", "../x", "3.11; rm"])
def test_a_version_that_is_none_is_refused(version: str) -> None:
    with pytest.raises(NodeError) as refusal:
        find_python(version)
    assert refusal.value.code == "setting-invalid"
