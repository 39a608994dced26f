"""`tuneplane-server doctor --probe` where there is no Slurm to ask."""

from __future__ import annotations

from pathlib import Path

from tests.services.ports import free_port
from tuneplane_server.doctor import look_from_nodes
from tuneplane_server.settings import load_settings


async def test_it_is_for_the_executor_slurm(tmp_path: Path) -> None:
    settings = load_settings({"TUNEPLANE_STORAGE_ROOT": str(tmp_path)})
    (finding,) = await look_from_nodes(settings, (), 10, lambda _line: None)
    assert finding.level == "error"
    assert "TUNEPLANE_EXECUTOR=slurm" in finding.hint


async def test_settings_that_are_missing_are_told_elsewhere(tmp_path: Path) -> None:
    settings = load_settings({"TUNEPLANE_STORAGE_ROOT": str(tmp_path), "TUNEPLANE_EXECUTOR": "slurm"})
    assert await look_from_nodes(settings, (), 10, lambda _line: None) == []


async def test_a_slurmrestd_that_is_away_is_one_finding(tmp_path: Path) -> None:
    settings = load_settings(
        {
            "TUNEPLANE_STORAGE_ROOT": str(tmp_path),
            "TUNEPLANE_EXECUTOR": "slurm",
            "TUNEPLANE_SLURM_URL": f"http://127.0.0.1:{free_port()}",
            "TUNEPLANE_SLURM_USER": "trainer",
            "TUNEPLANE_SLURM_TOKEN": "x",
            "TUNEPLANE_SLURM_CONTAINER": "apptainer",
        }
    )
    (finding,) = await look_from_nodes(settings, (), 10, lambda _line: None)
    assert (finding.code, finding.level) == ("slurm-unreachable", "error")
    assert "TUNEPLANE_SLURM_URL" in finding.hint
