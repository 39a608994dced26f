"""A small lab on disk, and a short way to write files into it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.lab.experiments import Experiment
from tuneplane.lab.find import Lab


class LabOnDisk:
    """A lab called `demo` with one experiment `first`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lab = Lab(root, "demo")
        self.write("tuneplane.yaml", "apiVersion: tuneplane/project/v1\nname: demo\n")
        self.write("experiments/first/config.yaml", "max_steps: 8\n")
        self.experiment = Experiment("first", root / "experiments" / "first")

    def write(self, name: str, text: str | bytes = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabOnDisk:
    monkeypatch.delenv("TUNEPLANE_LAB", raising=False)
    root = tmp_path / "demo"
    root.mkdir()
    return LabOnDisk(root)


def refusals(call: Callable[[], object]) -> list[Refusal]:
    """What the call refuses; the test fails when it does not."""
    with pytest.raises(RefusedError) as caught:
        call()
    return caught.value.refusals
