"""Real failures, each told by what the process really printed and how it really ended."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.training.failures import cases, rank_cases, training_cases
from tests.training.failures.cases import Case
from tests.training.failures.hub import refusing_hub
from tuneplane.runner.output import OutputQueue
from tuneplane_server.domain.classify import Exit, classify
from tuneplane_server.domain.phases import Phase
from tuneplane_server.domain.reasons import REASONS, fill

pytestmark = pytest.mark.timeout(300)
STAGE = Path(__file__).parent / "stage.py"
CASES = [
    *cases.MACHINES,
    *cases.ENDS,
    *cases.SCRIPTS,
    *rank_cases.RANKS_APART,
    *training_cases.CONFIGURATIONS,
    *training_cases.DATA,
    *training_cases.MODELS,
    *training_cases.CHECKPOINTS,
]
MOUNTED = [*cases.MOUNTS, *training_cases.MOUNTED_TRAINING]


@dataclass
class Stage:
    """The process of stage.py: torch and TRL are imported once, each script fails in a fork."""

    process: subprocess.Popen[str]
    folder: Path
    count: ClassVar[int] = 0

    def play(self, script: str) -> dict[str, Any]:
        """The outcome record that the runner would write, as far as it says how the trainer ended."""
        Stage.count += 1
        folder = self.folder / str(Stage.count)
        folder.mkdir()
        (folder / "train.py").write_text(script, encoding="utf-8")
        folder.chmod(0o777)  # some scripts give up being root
        ended = self._ask({"script": str(folder / "train.py"), "folder": str(folder)})
        queue = OutputQueue()
        queue.put("stdout", (folder / "log").read_bytes())
        return {"result": "failed", **ended, "log_tail": queue.tail()}

    def _ask(self, wanted: dict[str, str]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(wanted) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "stage.py has ended; its last words are on stderr"
        answer: dict[str, Any] = json.loads(line)
        return answer


@pytest.fixture(scope="module")
def stage(training_runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("stage")
    folder.chmod(0o755)
    with refusing_hub() as address:
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LC_ALL", "TMPDIR")}
        env = kept | {
            "HOME": str(folder),
            "HF_HOME": str(folder / "hub"),
            "HF_ENDPOINT": address,
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        process = subprocess.Popen(
            [training_runtime / "bin/python", "-u", STAGE],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        with process:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline()) == {"ready": True}
            yield Stage(process, folder)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(60) == 0


def ids(case: Case) -> str:
    return f"{case.code}-{case.name}"


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_a_real_failure_is_told_by_its_first_cause(stage: Stage, case: Case) -> None:
    check(stage, case)


@pytest.fixture(scope="module")
def can_mount() -> None:
    """Root with the right to mount, as in a CI machine; a container without it cannot make a disk small."""
    tried = subprocess.run(
        ["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        pytest.skip(f"hardware: no file system can be mounted here: {tried.stderr.strip()}")


@pytest.mark.usefixtures("can_mount")
@pytest.mark.parametrize("case", MOUNTED, ids=ids)
def test_a_real_failure_on_a_small_disk_is_told_by_its_first_cause(stage: Stage, case: Case) -> None:
    check(stage, case)


def check(stage: Stage, case: Case) -> None:
    outcome = stage.play(case.script)
    log = outcome["log_tail"]
    verdict = classify(Exit(), outcome, None)
    assert verdict.phase is Phase.FAILED, log
    assert verdict.reason is not None
    assert verdict.reason.code == case.code, log
    assert case.quoted in verdict.reason.data.get("detail", ""), log
    # A short quote stands in the log as it is, but for the rank before it.
    assert verdict.reason.data.get("detail", "").rstrip("…") in log
    assert "?" not in fill(REASONS[case.code].text, verdict.reason.data)


def test_names_of_cases_are_unique() -> None:
    names = [ids(case) for case in (*CASES, *MOUNTED)]
    assert len(set(names)) == len(names)
    assert len({case.code for case in (*CASES, *MOUNTED)}) >= 40
