"""Runs a method's template as a job does, without a console: experiment, adapter's command, reporter, real TRL.

`Warm.run` saves the imports, which take longer than a small training; `run` is a process of its own, as on the platform. Every method
is trained in one by `tests/e2e/test_trl.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuneplane import adapters
from tuneplane.lab.config import load_config
from tuneplane.recipes import index
from tuneplane.recipes.new import write_experiment
from tuneplane.runner.library import write_library
from tuneplane.runner.metric_names import MetricNames

SECONDS = 480  # thirty on an idle machine
STARTER = Path(__file__).with_name("warm.py")
# What tells one run of the same training from another: how long things took, and a counter that TRL starts anew on resume.
UNREPEATABLE = ("runtime", "per_second", "step_time", "num_tokens")

Curve = list[tuple[int, float]]


@dataclass
class Run:
    """`curves` under canonical names; `samples` as reported; `log` is what the trainer printed."""

    out: Path
    log: str
    curves: dict[str, Curve] = field(default_factory=dict)
    samples: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)

    def checkpoint(self, step: int) -> Path:
        return self.out / "checkpoints" / f"checkpoint-{step}"

    def repeatable(self, after: int = 0) -> dict[str, Curve]:
        """The curves that a repetition must reproduce to the last digit, from the step after `after` on."""
        return {
            name: [point for point in curve if point[0] > after]
            for name, curve in self.curves.items()
            if not any(word in name for word in UNREPEATABLE) and name != "train/mean_loss"
        }


@dataclass
class Job:
    """What a submission would say. `config` changes keys of the template's config.yaml; a value of None takes the key out."""

    method: str
    config: dict[str, Any] = field(default_factory=dict)
    hyperparams: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)  # as the runner sets it: data, model, resume point
    cpus: int = 1
    action: dict[str, Any] | None = None  # of the capsule: what it does instead of training


def run(job: Job, runtime: Path, root: Path, machine: adapters.Machine | None = None) -> Run:
    """Train to the end; `AssertionError` with the log when it fails."""
    work, out = root / "work", root / "out"
    capsule = prepare(job, work, out)
    command, process = launch(job, capsule, runtime, root, machine or adapters.Machine())
    log, _ = process.communicate(timeout=SECONDS)
    return ended(job, root, command, process.returncode, log)


@dataclass
class Warm:
    """A process of `warm.py`, which trains in its forks."""

    runtime: Path
    process: subprocess.Popen[str]

    def run(self, job: Job, root: Path) -> Run:
        """Train to the end on one machine; `AssertionError` with the log when it fails."""
        capsule = prepare(job, root / "work", root / "out")
        command, environment = compiled(job, capsule, self.runtime, root, adapters.Machine())
        log = root / "log"
        cwd = root / "work" / command.cwd_relative
        code = self._ask({"argv": command.argv, "cwd": str(cwd), "env": environment, "log": str(log)})["code"]
        return ended(job, root, command, code, log.read_text(encoding="utf-8"))

    def script(self, text: str, root: Path, *arguments: Path) -> str:
        """What a few lines of Python print, with the same imports at hand."""
        file, log = root / "script.py", root / "script.log"
        file.write_text(text)
        argv = [str(self.runtime / "bin/python"), str(file), *map(str, arguments)]
        wanted = {"argv": argv, "cwd": str(root), "env": {"HF_HUB_OFFLINE": "1"}, "log": str(log)}
        code = self._ask(wanted)["code"]
        assert code == 0, log.read_text(encoding="utf-8")[-6000:]
        return log.read_text(encoding="utf-8")

    def _ask(self, wanted: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(wanted) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "warm.py has ended; its last words are on stderr"
        found: dict[str, Any] = json.loads(line)
        return found


@contextmanager
def warm_process(runtime: Path, folder: Path) -> Iterator[Warm]:
    """`folder`: where the libraries keep what they keep."""
    env = {
        "PATH": f"{runtime / 'bin'}:{os.environ['PATH']}",
        "HOME": str(folder),
        "HF_HOME": str(folder / "hf"),
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    process = subprocess.Popen(
        [runtime / "bin/python", "-u", STARTER], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        warm = Warm(runtime, process)
        assert warm.answer() == {"ready": True}
        yield warm
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


def ended(job: Job, root: Path, command: adapters.Command, code: int, log: str) -> Run:
    assert code == 0, f"{' '.join(command.argv)}\n{log[-6000:]}"
    return collect(job, root / "out", root / "work", log)


def prepare(job: Job, work: Path, out: Path) -> dict[str, Any]:
    """The experiment below `work/lab`, the reporter beside it, and the parts of a capsule that the adapter reads."""
    manifest = index.entry(job.method)["manifest"]
    (work / "lab").mkdir(parents=True)
    (work / "lab/tuneplane.yaml").write_text("apiVersion: tuneplane/project/v1\nname: lab\n")
    experiment = write_experiment(work / "lab", "first", index.entry(job.method))
    write_library(str(work / "library"))
    (work / "report").mkdir()
    out.mkdir()
    config = {**load_config(experiment).values, **job.config}
    pool = {"name": "main", "series": "cpu", "nodes": 1, "gpus_per_node": 0, "cpus": job.cpus, "memory_gb": 4}
    return {
        "jobspec": {
            "metadata": {"name": "first", "project": "lab"},
            "spec": {
                "framework": {"kind": manifest["framework"], "version": manifest["runtime"]["default_version"]},
                "config": {key: value for key, value in config.items() if value is not None},
                "hyperparams": job.hyperparams,
                "resources": {"pools": [pool]},
            },
        },
        "recipe": {
            "entrypoint": manifest["entrypoint"],
            "adapter_options": manifest["adapter_options"],
            "param_paths": {name: param["path"] for name, param in manifest["params"].items()},
        },
        "action": job.action,
        "paths": {"out_dir": str(out)},
    }


def compiled(
    job: Job, capsule: dict[str, Any], runtime: Path, root: Path, machine: adapters.Machine
) -> tuple[adapters.Command, dict[str, str]]:
    """The adapter's command, its files written, and the environment that the runner would give it."""
    work = root / "work"
    machine = adapters.Machine(
        rank=machine.rank,
        count=machine.count,
        gpus_per_node=machine.gpus_per_node,
        main_port=machine.main_port,
        python=str(runtime / "bin/python"),
        work_dir=str(work),
    )
    command = adapters.compile(capsule, machine)
    for name, text in command.files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text, encoding="utf-8")
    environment = {
        "PATH": f"{runtime / 'bin'}:{os.environ['PATH']}",
        "HOME": str(work),
        "HF_HOME": str(root / "hf"),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(work / "library"),
        "TUNEPLANE_OUT_DIR": str(root / "out"),
        "TUNEPLANE_REPORT_DIR": str(work / "report"),
        **command.env,
        **job.env,
    }
    return command, environment


def launch(
    job: Job, capsule: dict[str, Any], runtime: Path, root: Path, machine: adapters.Machine
) -> tuple[adapters.Command, subprocess.Popen[str]]:
    command, environment = compiled(job, capsule, runtime, root, machine)
    process = subprocess.Popen(
        command.argv,
        cwd=root / "work" / command.cwd_relative,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return command, process


def collect(job: Job, out: Path, work: Path, log: str) -> Run:
    """The reported lines, metrics renamed as the runner renames them; only rank 0's metrics are the run's."""
    names = MetricNames(index.entry(job.method)["manifest"]["metrics"]["aliases"])
    result = Run(out, log)
    for path in sorted((work / "report").glob("*.ndjson")):
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            result.ranks.add(line["rank"])
            result.samples += line.get("samples", [])
            if line["k"] == "e":
                result.events.append(line)
            for name, columns in line.get("series", {}).items() if line["rank"] == 0 else ():
                canonical = names.canonical(name)
                assert canonical is not None
                points = zip(columns["step"], columns["value"], strict=True)
                result.curves.setdefault(canonical, []).extend(points)
    return result
