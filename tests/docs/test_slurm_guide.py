"""Whoever writes down the settings of the guide to Slurm gets a console whose probe finds nothing wrong, and that admits a run: real Slurm."""

from __future__ import annotations

import json
import re
import secrets
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import LANGUAGES
from tests.e2e.harness import BIN, Client, Console
from tests.services.plugin import slurm_or_skip
from tests.services.ports import free_port
from tests.services.session import ROOT
from tests.services.slurm import VERSIONS, SlurmCluster
from tuneplane_server.settings import load_settings
from tuneplane_server.slurm_settings import slurm_settings

PAGES = {language: ROOT / "docs" / language / "guides" / "slurm.md" for language in LANGUAGES}
_SETTINGS = re.compile(r"^```\n((?:TUNEPLANE_\w+=\S+\n)+)```$", re.MULTILINE)
_REGISTRY = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def settings_of(page: Path) -> dict[str, str]:
    (block,) = _SETTINGS.findall(page.read_text(encoding="utf-8"))
    return dict(line.split("=", 1) for line in block.splitlines())


def registry_of(page: Path) -> str:
    (block,) = _REGISTRY.findall(page.read_text(encoding="utf-8"))
    return block


def test_both_languages_have_the_same_settings_and_runtimes() -> None:
    english, chinese = PAGES.values()
    assert settings_of(english) == settings_of(chinese)
    without_comments = [re.sub(r"\s+#.*", "", registry_of(page)) for page in (english, chinese)]
    assert without_comments[0] == without_comments[1]


def test_the_settings_are_whole() -> None:
    slurm = slurm_settings(load_settings(settings_of(PAGES["en"])))
    assert slurm is not None
    assert (slurm.partitions.of("h200"), slurm.partitions.of("cpu")) == ("gpu", "main")


@pytest.fixture(scope="module", params=sorted(VERSIONS))
def slurm(request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    """One of our own: on the shared one other tests may hold every card."""
    with slurm_or_skip(request.config, request.param) as cluster:
        yield cluster


@pytest.fixture
def console(slurm: SlurmCluster, tmp_path: Path) -> Iterator[Console]:
    """As the page has it, with this cluster's addresses and paths."""
    port, shared = free_port(), slurm.folder / f"guide-{secrets.token_hex(4)}"
    shared.mkdir()
    (shared / "trl.sif").touch()
    registry = tmp_path / "runtimes.yaml"
    registry.write_text(registry_of(PAGES["en"]).replace("/data/images/trl-1.16.sif", str(shared / "trl.sif")))
    places = {
        "http://slurm.example.org:6820": slurm.url,
        "/data/tuneplane-token/token": str(slurm.token_file),
        "/data/tuneplane": str(shared),
        "/var/lib/tuneplane": str(tmp_path / "state"),
        "/etc/tuneplane/runtimes.yaml": str(registry),
        "http://10.0.0.1:8642": f"http://127.1:{port}",
        "0.0.0.0": "127.0.0.1",
        "h200=gpu": "h200=main",
    }
    settings = settings_of(PAGES["en"])
    for there, here in places.items():
        settings = {name: value.replace(there, here) for name, value in settings.items()}
    changes = {"TUNEPLANE_SLURM_USER": slurm.user, "TUNEPLANE_SLURM_TIME_LIMIT": "30", "TUNEPLANE_PORT": str(port)}
    running = Console(tmp_path / "console", settings | changes, port=port).start()
    yield running
    running.stop()


@pytest.mark.services
@pytest.mark.timeout(300)
def test_the_console_of_the_guide_is_found_well_and_admits_a_run(console: Console, tmp_path: Path) -> None:
    said = json.loads(console.admin("doctor", "--probe", "--json"))["findings"]
    assert [item for item in said if item["level"] == "error"] == []
    assert {"slurm", "slurm-token", "probe-storage", "probe-ingest", "probe-container", "probe-cards"} <= {
        item["code"] for item in said
    }
    client = Client(tmp_path / "reader", console, console.add_user()).prepare()
    client.new("first", "trl/sft")
    dry = client.tp("submit", "first", "--profile", "h200:1", "--max-duration", "30m", "--dry-run", "--json")
    assert dry.code == 0, dry.err


@pytest.mark.services
@pytest.mark.timeout(300)
def test_ctrl_c_and_a_signal_to_end_take_the_probe_back(console: Console, slurm: SlurmCluster) -> None:
    partition = f"down{secrets.token_hex(3)}"
    slurm.run("scontrol", "create", f"partition={partition}", "nodes=n1", "state=down")
    try:
        for told, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            looking = subprocess.Popen(
                [BIN / "tuneplane-server", "doctor", "--probe", "--partition", partition],
                env=console.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert looking.stderr is not None
            said = looking.stderr.readline()
            looking.send_signal(told)
            rest = looking.communicate(timeout=120)[1]
            assert said.startswith(f"{partition}: "), said + rest
            assert looking.returncode == code, rest
            assert "Traceback" not in rest
            slurm.wait("no probe waits", lambda: not slurm.run("squeue", "-h", "-p", partition, "-o", "%A").split())
    finally:
        slurm.run("scontrol", "delete", f"partition={partition}")
