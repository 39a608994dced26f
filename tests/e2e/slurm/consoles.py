"""Consoles whose jobs go to a real Slurm of the tests."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.harness import Client, Console
from tests.services.slurm import SlurmCluster
from tests.services.slurm_conf import CONSOLE

SYSTEM = Path("/usr")  # its Python is all that jobs without a framework need


def slurm_settings(cluster: SlurmCluster, images: Mapping[str, Path] | None = None, **more: str) -> dict[str, str]:
    """Of a console. `images`: runtime id -> the Python environment that plays its image; the framework `custom` has the system's."""
    settings = {
        "TUNEPLANE_EXECUTOR": "slurm",
        "TUNEPLANE_SLURM_URL": cluster.url,
        "TUNEPLANE_SLURM_USER": cluster.user,
        "TUNEPLANE_SLURM_TOKEN_FILE": str(cluster.token_file),
        "TUNEPLANE_SLURM_CONTAINER": "apptainer",
        "TUNEPLANE_SIMULATED_GPUS": "h200:8",  # what it says is not read: the cards are those that Slurm has, all invented
        "TUNEPLANE_CONTAINER_MOUNTS": f"{controls(cluster)}:{controls(cluster)}:ro",
        "TUNEPLANE_IMAGE_CUSTOM": str(cluster.image("custom.sif", SYSTEM)),
    }
    if images:
        registry = cluster.folder / f"runtimes-{secrets.token_hex(4)}.yaml"
        lines = [f"  {name}: {{sif: {cluster.image(f'{name}.sif', path)}}}\n" for name, path in images.items()]
        registry.write_text("".join(["runtimes:\n", *lines]))
        settings["TUNEPLANE_RUNTIME_REGISTRY_FILE"] = str(registry)
    return settings | more


def console_settings(
    console: Console, cluster: SlurmCluster, images: Mapping[str, Path] | None = None, **more: str
) -> dict[str, str]:
    """Of this console, which listens on this machine, as its jobs reach it."""
    return {"TUNEPLANE_INGEST_URL": f"http://{CONSOLE}:{console.port}"} | slurm_settings(cluster, images, **more)


def controls(cluster: SlurmCluster) -> Path:
    """A folder that jobs see beside the storage root, where a test puts what they wait for."""
    folder = cluster.folder / "controls"
    folder.mkdir(exist_ok=True)
    return folder


@contextmanager
def slurm_client(cluster: SlurmCluster, images: Mapping[str, Path] | None = None, **more: str) -> Iterator[Client]:
    """Somebody with a lab on a console of their own in the folder that the cluster's jobs see; `more` are settings of the console."""
    folder = cluster.folder / f"console-{secrets.token_hex(4)}"
    console = Console(folder / "console")
    console.settings = console_settings(console, cluster, images, **more)
    try:
        console.start()
        yield Client(folder / "client", console, console.add_user()).prepare()
    finally:
        console.stop()
