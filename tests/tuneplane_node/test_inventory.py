"""What a machine has: real numbers of this one, NVIDIA's tool played by a script, and invented cards."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tuneplane_node.engine import NodeError
from tuneplane_node.engine.inventory import parse_nvidia_smi, parse_simulated, series_of, take_inventory
from tuneplane_node.engine.runtimes.cdi import nvidia_devices


def install_nvidia_smi(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


async def test_a_machine_without_cards_has_none(tmp_path: Path) -> None:
    found = await take_inventory(tmp_path / "not" / "yet")
    assert found.gpus == ()
    assert found.findings == ()
    assert not found.simulated
    assert found.hostname == socket.gethostname()
    assert found.cpus == len(os.sched_getaffinity(0))
    assert 0 < found.memory_available_bytes <= found.memory_bytes
    assert 0 <= found.disk_free_bytes <= found.disk_bytes


async def test_cards_are_read_from_nvidia_s_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_nvidia_smi(
        tmp_path,
        'echo "1, GPU-b, NVIDIA H200, 143771, 570.86.15"; echo "0, GPU-a, NVIDIA H200, 143771, 570.86.15"',
        monkeypatch,
    )
    found = await take_inventory(tmp_path)
    assert [(gpu.index, gpu.series, gpu.uuid, gpu.simulated) for gpu in found.gpus] == [
        (0, "h200", "GPU-a", False),
        (1, "h200", "GPU-b", False),
    ]
    assert found.gpus[0].memory_bytes == 143771 * 1024 * 1024
    assert found.gpus[0].driver == "570.86.15"


@pytest.mark.parametrize(("script", "words"), [
    ("echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'; exit 9", "could not communicate"),
    ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "version mismatch"),
    ("echo 'No devices were found'", "unexpected line"),
    ("echo 'x, GPU-a, NVIDIA H200, 143771, 570'", "invalid literal"),
    ("exec sleep 600", "no answer within"),
])  # fmt: skip
async def test_a_driver_that_does_not_answer_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    install_nvidia_smi(tmp_path, script, monkeypatch)
    monkeypatch.setattr("tuneplane_node.engine.inventory.NVIDIA_SMI_SECONDS", 0.5)
    found = await take_inventory(tmp_path)
    assert found.gpus == ()
    (finding,) = found.findings
    assert (finding.code, finding.level) == ("gpu-query-failed", "error")
    assert words in finding.detail


async def test_invented_cards_take_the_place_of_real_ones_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_nvidia_smi(tmp_path, f"touch {tmp_path}/asked", monkeypatch)
    found = await take_inventory(tmp_path, parse_simulated("h200:2, H100:1"))
    assert [(gpu.index, gpu.series, gpu.simulated) for gpu in found.gpus] == [
        (0, "h200", True),
        (1, "h200", True),
        (2, "h100", True),
    ]
    assert found.simulated
    assert [finding.code for finding in found.findings] == ["gpu-simulated"]
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize(
    "text",
    [
        "h200",
        "h200:",
        ":8",
        "h200:0",
        "h200:-1",
        "h200:八",
        "h200:٤",
        "h200:2000",
        "h200:1000,h100:100",
        "h 200:1",
        "h200:1:2",
    ],
)
def test_invented_cards_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(NodeError) as refusal:
        parse_simulated(text)
    assert refusal.value.code == "setting-invalid"
    assert "TUNEPLANE_SIMULATED_GPUS" in refusal.value.text()


@pytest.mark.parametrize(("name", "series"), [
    ("NVIDIA H200", "h200"), ("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA H100 NVL", "h100"), ("NVIDIA H20", "h20"),
    ("NVIDIA A100-SXM4-80GB", "a100"), ("NVIDIA A800-SXM4-80GB", "a800"), ("NVIDIA A10G", "a10g"), ("Tesla T4", "t4"),
    ("Tesla V100-SXM2-32GB", "v100"), ("NVIDIA L40S", "l40s"), ("NVIDIA B200", "b200"), ("NVIDIA GH200 480GB", "gh200"),
    ("NVIDIA GB200", "gb200"), ("NVIDIA GeForce RTX 4090", "rtx4090"), ("NVIDIA GeForce RTX 3080 Ti", "rtx3080ti"),
    ("NVIDIA RTX 6000 Ada Generation", "rtx6000ada"), ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtxpro6000"),
    ("NVIDIA Thor", "thor"), ("", "gpu"),
])  # fmt: skip
def test_a_card_is_called_by_its_series(name: str, series: str) -> None:
    assert series_of(name) == series


def test_a_card_that_shares_the_host_s_memory_tells_no_size() -> None:
    (gpu,) = parse_nvidia_smi("0, GPU-a, NVIDIA GB10, [N/A], 580.95.05\n")
    assert gpu.memory_bytes is None


def test_cards_for_podman_come_from_the_machine_s_cdi_files(tmp_path: Path) -> None:
    (tmp_path / "nvidia.yaml").write_text(
        "cdiVersion: 0.6.0\nkind: nvidia.com/gpu\ndevices:\n- name: '0'\n  containerEdits: {}\n- name: all\n"
    )
    (tmp_path / "more.json").write_text('{"kind": "nvidia.com/gpu", "devices": [{"name": "GPU-1"}]}')
    (tmp_path / "other.yaml").write_text("kind: intel.com/gpu\ndevices: [{name: '7'}]\n")
    (tmp_path / "broken.yaml").write_text("kind: [")
    (tmp_path / "broken.json").write_text("{")
    assert nvidia_devices([tmp_path, tmp_path / "missing"]) == {"0", "all", "GPU-1"}
