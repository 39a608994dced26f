"""What a console for Slurm refuses, told by `tp` before Slurm is asked: each with the setting or the line to change."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from tests.e2e.harness import Client
from tests.e2e.slurm.consoles import slurm_client
from tests.services.slurm import SlurmCluster

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

DATA = ("--model", "hf:owner/model", "--train-data", "/usr/share")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("registry") / "runtimes.yaml"
    file.write_text("runtimes:\n  trl-1.16:\n    oci: registry.example.org/trl:1.16\n")
    return file


@pytest.fixture(scope="module")
def client(slurm_clusters: Callable[[str], SlurmCluster], registry: Path) -> Iterator[Client]:
    """On 24.11. Jobs of cards go to the partition of one machine, which ends them after five minutes; all others to the large one."""
    cluster = slurm_clusters("24.11")
    with slurm_client(
        cluster, TUNEPLANE_SLURM_PARTITION="main,h200=small", TUNEPLANE_RUNTIME_REGISTRY_FILE=str(registry)
    ) as made:
        made.new("plain", "custom/custom")
        made.new("tuned", "trl/sft")
        yield made


def refused(client: Client, *options: str) -> tuple[list[str], str]:
    """The codes, and all that was said."""
    answer = client.tp("submit", *options, code=3)
    return re.findall(r"\[([a-z-]+)\]$", answer.err, re.MULTILINE), answer.err


@pytest.mark.parametrize(
    ("options", "code", "words", "setting"),
    [
        (("--profile", "h200:16"), "pool-impossible", "the partition small has 1 of them", "SLURM_PARTITION"),
        (("--profile", "h100:8"), "profile-unknown", "no profile “h100”", "SLURM_PARTITION"),
        (("--profile", "h200:12"), "pool-impossible", "12", "SLURM_PARTITION"),
        (("--profile", "h200:8", "--max-duration", "6m"), "duration-over-limit", "after 5 minutes", "SLURM_PARTITION"),
        (("--profile", "cpu", "--image", "own:1"), "runtime-form", "SIF files", "SLURM_CONTAINER"),
        (("--profile", "cpu", "--image", "/x/own.sqsh"), "runtime-form", "SIF files", "SLURM_CONTAINER"),
    ],
)
def test_what_the_cluster_never_gives_names_the_setting(
    client: Client, options: tuple[str, ...], code: str, words: str, setting: str
) -> None:
    codes, said = refused(client, "plain", "--observability-url", "https://curves.example.org", *options)
    assert codes == [code], said
    assert words in said
    assert f"TUNEPLANE_{setting}" in said


def test_a_runtime_that_is_there_only_as_oci_names_the_line_which_counts_as_soon_as_it_is_written(
    client: Client, registry: Path
) -> None:
    codes, said = refused(client, "tuned", "--profile", "cpu", *DATA)
    assert "runtime-form" in codes
    line = "sif: /path/to/trl-1.16.sif"
    assert f"{registry}:2, below trl-1.16: {line}" in said
    assert "apptainer build trl-1.16.sif docker://registry.example.org/trl:1.16" in said
    listed = client.tp("admin", "runtime", "ls").out
    assert line in listed
    before = registry.read_text()
    registry.write_text(f"{before}    {line}\n")
    codes = refused(client, "tuned", "--profile", "cpu", *DATA)[0]
    assert "runtime-form" not in codes
    [trl] = [
        item for item in client.tp("admin", "runtime", "ls", "--json").json["items"] if item["runtime_id"] == "trl-1.16"
    ]
    assert (trl["usable"], trl["image"]) == (True, "/path/to/trl-1.16.sif")
    registry.write_text(f"{before}    {line.replace('sif:', 'sfi:')}\n")
    assert "did you mean “sif”?" in client.tp("admin", "runtime", "ls").out
    health = httpx2.get(f"{client.console.url}/healthz", timeout=60).json()
    assert "runtime-registry" in [item["code"] for item in health["findings"]]
    registry.write_text(before)
