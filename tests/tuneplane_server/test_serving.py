"""`tuneplane-server` as its operator meets it: the real command in its own process."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

SERVER = str(Path(sys.executable).parent / "tuneplane-server")
PASSWORD = "four random words here"


class Operator:
    """Runs the command on one data directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []

    def env(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEPLANE_")}
        root = {"TUNEPLANE_STORAGE_ROOT": str(self.folder), "TUNEPLANE_RUNTIME": "process", "TUNEPLANE_PORT": "0"}
        return kept | root | more

    def run(self, *arguments: str, text: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SERVER, *arguments],
            env=self.env(**env),
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def serve(self, **env: str) -> tuple[subprocess.Popen[str], list[str]]:
        """The process and what it said when it was ready, up to the line with the address or the set-up link."""
        process = subprocess.Popen(
            [SERVER, "serve"], env=self.env(**env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.started.append(process)
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line.strip())
            if "/setup?token=" in line or (env.get("READY") and env["READY"] in line):
                return process, lines
        raise AssertionError("\n".join(lines))


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    operator = Operator(tmp_path / "root")
    yield operator
    for process in operator.started:
        if process.poll() is None:
            process.kill()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


def address_of(lines: list[str]) -> str:
    return next(line.rpartition(" ")[2] for line in lines if line.startswith("TunePlane console: "))


def test_the_first_start_prints_a_link_that_makes_the_administrator(operator: Operator) -> None:
    process, lines = operator.serve()
    address, token = address_of(lines), lines[-1].partition("token=")[2]
    assert any("isolated" in line for line in lines)
    made = httpx2.post(
        f"{address}/api/v1/setup", json={"token": token, "username": "ada", "password": PASSWORD}, timeout=60
    )
    assert made.status_code == 201
    assert httpx2.get(f"{address}/readyz", timeout=60).status_code == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert operator.run("setup-link").returncode == 1
    assert (operator.folder / "console" / "tuneplane.db").exists()


def test_one_data_directory_has_one_console_and_admin_commands_work_beside_it(operator: Operator) -> None:
    first, lines = operator.serve()
    second = operator.run("serve")
    assert second.returncode == 1
    assert str(first.pid) in second.stderr
    assert "Traceback" not in second.stderr
    assert operator.run("user", "add", "ada", "--password-stdin", text=PASSWORD + "\n").returncode == 0
    token = operator.run("token", "create", "--user", "ada", "--name", "x").stdout.strip()
    me = httpx2.get(f"{address_of(lines)}/api/v1/me", headers={"Authorization": f"Bearer {token}"}, timeout=60)
    assert me.json()["username"] == "ada"
    first.kill()
    first.wait(60)
    again, _lines = operator.serve(READY="TunePlane console")  # the lock of a killed console is free
    assert again.poll() is None


@pytest.mark.parametrize(
    ("arguments", "env", "said"),
    [
        (["serve", "--port", "70000"], {}, "65535"),
        (["migrate"], {"TUNEPLANE_DATABASE_URL": "mysql://x"}, "postgresql://"),
        (["migrate"], {"TUNEPLANE_DATABASE_URL": "postgresql://127.0.0.1:1/x"}, "TUNEPLANE_DATABASE_URL"),
        (["user", "add", "../x", "--no-password"], {}, "letters"),
        (["user", "add", "ada", "--password-stdin"], {}, "characters"),
        (["token", "create", "--user", "nobody"], {}, "nobody"),
        (["runtime", "build", "nothing"], {}, "trl-1.16"),
        (["serve"], {"TUNEPLANE_SIMULATED_GPUS": "lots"}, "h200:8"),
        (["nonsense"], {}, "nonsense"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_one_message_and_no_traceback(
    operator: Operator, arguments: list[str], env: dict[str, str], said: str
) -> None:
    done = operator.run(*arguments, **env)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_said(operator: Operator) -> None:
    _process, lines = operator.serve()
    port = address_of(lines).rpartition(":")[2]
    other = Operator(operator.folder.parent / "other")
    done = other.run("serve", "--port", port)
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "--port" in done.stderr


def test_config_shows_origins_and_hides_secrets(operator: Operator) -> None:
    shown = operator.run("config", TUNEPLANE_WEB_JWT_SECRET="s" * 40, TUNEPLANE_IMAGE_TRL="x:1").stdout
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines()}
    assert rows["TUNEPLANE_PORT"] == ["environment", "0"]
    assert rows["TUNEPLANE_HOST"] == ["default", "127.0.0.1"]
    assert rows["TUNEPLANE_IMAGE_TRL"] == ["environment", "x:1"]
    assert "s" * 40 not in shown


def test_doctor_finds_what_stands_in_the_way(operator: Operator, tmp_path: Path) -> None:
    well = operator.run("doctor")
    assert well.returncode == 0, well.stdout + well.stderr
    assert "SQLite" in well.stdout
    registry = tmp_path / "registry.yaml"
    registry.write_text("[broken")
    ill = operator.run("doctor", TUNEPLANE_PROT="1", TUNEPLANE_RUNTIME_REGISTRY_FILE=str(registry))
    assert ill.returncode == 1
    assert "TUNEPLANE_PROT" in ill.stdout
    assert "registry.yaml" in ill.stdout


def test_migrate_says_what_it_did(operator: Operator) -> None:
    assert "→" in operator.run("migrate").stdout
    assert "nothing to do" in operator.run("migrate").stdout


@pytest.fixture
def postgres_settings(postgres_url: str) -> Callable[[], dict[str, str]]:
    return lambda: {"TUNEPLANE_DATABASE_URL": postgres_url.replace("+psycopg", "")}


def test_it_serves_from_postgres(operator: Operator, postgres_settings: Callable[[], dict[str, str]]) -> None:
    env = postgres_settings()
    process, lines = operator.serve(**env)
    assert httpx2.get(f"{address_of(lines)}/api/v1/server", timeout=60).json()["setup_needed"] is True
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert not (operator.folder / "console" / "tuneplane.db").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "There is no token"),
        ("", "it is empty"),
        ("short-secret\n", "12 characters"),
        ("0123456789abcdef\n0123456789abcdef\n", "line break"),
        ("0123456789 abcdef", "space"),
    ],
)
def test_without_a_token_that_nodes_could_know_it_by_it_refuses_to_start(
    operator: Operator, tmp_path: Path, content: str | None, said: str
) -> None:
    """Both the console and `doctor` say which setting it is, and nobody's secret is printed."""
    env = {"TUNEPLANE_EXECUTOR": "agent"}
    if content is not None:
        (tmp_path / "token").write_text(content)
        env["TUNEPLANE_AGENT_TOKEN_FILE"] = str(tmp_path / "token")
    ended = operator.run("serve", **env)
    assert ended.returncode == 1
    assert said in ended.stderr
    assert "TUNEPLANE_AGENT_TOKEN" in ended.stderr
    assert "0123456789" not in ended.stderr
    assert "Traceback" not in ended.stderr
    if content is None:
        asked = operator.run("doctor", **env)
        assert asked.returncode == 1
        assert said in asked.stdout
        assert "Traceback" not in asked.stderr


def test_a_console_of_nodes_starts_without_any_and_says_so(operator: Operator) -> None:
    env = {"TUNEPLANE_EXECUTOR": "agent", "TUNEPLANE_AGENT_TOKEN": "0123456789abcdef-secret"}
    before = operator.run("doctor", **env)  # there is no database yet
    assert "Traceback" not in before.stderr
    assert "TUNEPLANE_INGEST_URL" in before.stdout
    process, lines = operator.serve(**env)
    assert any("/setup?token=" in line for line in lines)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    asked = operator.run("doctor", **env)
    assert "no node has joined yet" in asked.stdout
    assert "executor agent\n" in asked.stdout
    assert "0123456789" not in operator.run("config", **env).stdout


def test_a_console_for_slurm_without_its_settings_refuses_to_start_and_doctor_says_the_same(operator: Operator) -> None:
    half = {"TUNEPLANE_EXECUTOR": "slurm", "TUNEPLANE_SLURM_CONTAINER": "apptainer"}
    served, examined = operator.run("serve", **half), operator.run("doctor", **half)
    for result, said in ((served, served.stderr), (examined, examined.stdout)):
        assert result.returncode == 1
        for name in ("URL", "USER", "TOKEN_FILE"):
            assert f"TUNEPLANE_SLURM_{name}: " in said
        assert "TUNEPLANE_SLURM_CONTAINER" not in said
        assert "Traceback" not in result.stdout + result.stderr


def test_a_bad_runtime_registry_refuses_the_start_with_every_line_and_doctor_says_the_same(
    operator: Operator, tmp_path: Path
) -> None:
    file = tmp_path / "runtimes.yaml"
    file.write_text("runtimes:\n  trl-1.16: untagged\n  verl-0.9: {siff: /x.sif}\n")
    bad = {"TUNEPLANE_RUNTIME_REGISTRY_FILE": str(file)}
    served, examined = operator.run("serve", **bad), operator.run("doctor", **bad)
    for result, said in ((served, served.stderr), (examined, examined.stdout)):
        assert result.returncode == 1
        assert f"{file}:2: the image untagged has neither a tag nor a digest" in said
        assert f"{file}:3: unknown key “siff”" in said
        assert "did you mean “sif”?" in said
        assert "Traceback" not in result.stdout + result.stderr
    half = operator.run("doctor", **bad, TUNEPLANE_EXECUTOR="slurm").stdout
    assert f"{file}:2: " in half, "also while other things are missing"
    chinese = operator.run("serve", **bad, TUNEPLANE_LANG="zh-Hans").stderr
    assert f"{file}:2: " in chinese
    assert "neither a tag" not in chinese


def test_the_files_of_the_registry_are_compared_with_their_digests(operator: Operator, tmp_path: Path) -> None:
    file, image = tmp_path / "runtimes.yaml", tmp_path / "trl.sif"
    image.write_bytes(b"x" * 100)
    good = hashlib.sha256(image.read_bytes()).hexdigest()
    entry = "  {name}: {{sif: {{path: {path}, digest: {digest}}}}}\n"
    env = {"TUNEPLANE_RUNTIME_REGISTRY_FILE": str(file)}
    file.write_text("runtimes:\n" + entry.format(name="a-1", path=image, digest=good))
    whole = operator.run("runtime", "verify", **env)
    assert (whole.returncode, whole.stdout) == (0, f"same       a-1 {image}\n")
    missing = tmp_path / "missing.sif"
    file.write_text(
        file.read_text()
        + entry.format(name="b-1", path=image, digest="f" * 64)
        + entry.format(name="c-1", path=missing, digest=good)
    )
    broken = operator.run("runtime", "verify", **env)
    assert broken.returncode == 1
    assert f"different  b-1 {image}: sha256:{good}, not what {file}:3 says" in broken.stdout
    assert f"unread     c-1 {missing}: " in broken.stdout
    assert operator.run("runtime", "verify", "a-1", **env).returncode == 0
    unknown = operator.run("runtime", "verify", "d-1", **env)
    assert (unknown.returncode, "a-1, b-1, c-1" in unknown.stderr) == (1, True)
