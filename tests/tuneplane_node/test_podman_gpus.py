"""Podman gives cards by their CDI names. The cards here are /dev/null under NVIDIA's names; the path to them is real."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.containers import Engine as ContainerEngine
from tests.services.containers import import_image
from tests.tuneplane_node.bench import IMAGE, Bench
from tests.tuneplane_node.podmans import podman_home, serving_podman
from tuneplane_node.engine import NodeError
from tuneplane_node.engine.runtimes import cdi, docker_api

pytestmark = pytest.mark.services
CARDS = ("0", "1", "2")


def card(name: str) -> dict[str, object]:
    node = {"path": f"/dev/nvidia{name}", "hostPath": "/dev/null", "type": "c", "major": 1, "minor": 3}
    return {"name": name, "containerEdits": {"deviceNodes": [node]}}


@pytest.fixture
def podman_with_cards(monkeypatch: pytest.MonkeyPatch) -> Iterator[ContainerEngine]:
    """A Podman service that sees CDI files of its own, in a mount namespace of its own: the machine's stay as they are."""
    with podman_home() as home:
        (home / "cdi").mkdir()
        spec = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [card(name) for name in CARDS]}
        (home / "cdi/nvidia.json").write_text(json.dumps(spec))
        real = shutil.which("podman") or "/usr/bin/podman"
        (home / "bin").mkdir()
        (home / "bin/podman").write_text(
            "#!/bin/sh\nexec unshare --mount sh -c '"
            f'mkdir -p /var/run/cdi && mount --bind {home}/cdi /var/run/cdi && exec {real} "$@"\' podman "$@"\n'
        )
        (home / "bin/podman").chmod(0o755)
        monkeypatch.setenv("PATH", f"{home}/bin:{os.environ['PATH']}")
        directories = [home / "cdi"]
        monkeypatch.setattr(docker_api, "nvidia_devices", lambda: cdi.nvidia_devices(directories))
        with serving_podman(home) as engine:
            yield engine


async def test_a_job_sees_exactly_its_cards(podman_with_cards: ContainerEngine, tmp_path: Path) -> None:
    import_image(podman_with_cards, IMAGE, {"PATH": "/usr/bin:/bin"})
    bench = Bench("podman", podman_with_cards.url, IMAGE, tmp_path)
    look = f"ls /dev | grep '^nvidia' >{bench.directory}/$TUNEPLANE_RUN_ID; exit 0"
    for name, gpus in (("two", (0, 2)), ("none", ())):
        handle = await bench.launch(look, name, gpus=gpus, env={"TUNEPLANE_RUN_ID": name})
        assert (await bench.ended(handle)).exit_code == 0
    assert (bench.directory / "two").read_text().split() == ["nvidia0", "nvidia2"]
    assert (bench.directory / "none").read_text() == ""
    await bench.clean()


async def test_a_card_that_no_file_names_is_refused(podman_with_cards: ContainerEngine, tmp_path: Path) -> None:
    import_image(podman_with_cards, IMAGE, {"PATH": "/usr/bin:/bin"})
    bench = Bench("podman", podman_with_cards.url, IMAGE, tmp_path)
    with pytest.raises(NodeError) as refusal:
        await bench.launch("exit 0", gpus=(0, 7))
    assert refusal.value.code == "gpu-unsupported"
    assert "nvidia.com/gpu=7" in refusal.value.detail
    assert await bench.engine.owned() == []
    await bench.clean()
