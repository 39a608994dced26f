"""A job as the console lays it out on disk: storage root, package, capsule, bootstrap, runner."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuneplane.runner.archive import build_runner
from tuneplane.runner.bootstrap import render_bootstrap

JOB = "0123456789abcdef"
DIGEST = "0" * 64


class JobFolder:
    """`files` are the experiment's; `change` edits the capsule before it is written."""

    def __init__(
        self,
        root: Path,
        files: dict[str, str],
        ingest_url: str,
        change: Callable[[dict[str, Any]], None] | None = None,
        machines: int = 1,
    ) -> None:
        self.root = root
        attempt = root / "projects/ada/lab/jobs" / JOB / "attempts/1"
        self.out, self.spool, self.capsule_dir = attempt / "out", attempt / "spool", attempt / "capsule"
        self.tmp = root / "tmp"
        for directory in (self.out, self.spool, self.capsule_dir, self.tmp, root / "packages"):
            directory.mkdir(parents=True)
        package = make_package({f"experiments/exp/{name}": text for name, text in files.items()})
        digest = hashlib.sha256(package).hexdigest()
        self.package = root / "packages" / digest
        self.package.write_bytes(package)
        runner = build_runner()
        self.capsule = capsule_values(root, self, digest, hashlib.sha256(runner).hexdigest(), ingest_url, machines)
        if change is not None:
            change(self.capsule)
        content = json.dumps(self.capsule).encode()
        (self.capsule_dir / "capsule.json").write_bytes(content)
        (self.capsule_dir / "runner.pex").write_bytes(runner)
        script = render_bootstrap(hashlib.sha256(content).hexdigest(), hashlib.sha256(runner).hexdigest())
        (self.capsule_dir / "bootstrap.sh").write_text(script)

    def environment(self, token: str | None = "token-of-this-attempt", **more: str) -> dict[str, str]:
        environment = {
            "PATH": os.environ["PATH"],
            "TMPDIR": str(self.tmp),
            "TUNEPLANE_PYTHON": sys.executable,
            "TUNEPLANE_CAPSULE_DIR": str(self.capsule_dir),
            "TUNEPLANE_RUN_ID": JOB,
            "TUNEPLANE_ATTEMPT": "1",
            "TUNEPLANE_INGEST_URL": self.capsule["ingest"]["url"],
            "TUNEPLANE_MACHINE_RANK": "0",
            "TUNEPLANE_MACHINE_COUNT": str(self.capsule["topology"]["machine_count"]),
            "TUNEPLANE_MAIN_PROCESS_IP": "127.0.0.1",
            "TUNEPLANE_MAIN_PROCESS_PORT": "29511",
        }
        if token is not None:
            environment["TUNEPLANE_INGEST_TOKEN"] = token
        environment.update(more)
        return environment

    def start(
        self, shell: str = "sh", token: str | None = "token-of-this-attempt", **more: str
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*shell.split(), str(self.capsule_dir / "bootstrap.sh")],
            env=self.environment(token, **more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, seconds: float = 90.0, **more: str) -> subprocess.CompletedProcess[str]:
        process = self.start(**more)
        out, err = process.communicate(timeout=seconds)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def outcome(self, name: str = "outcome.json") -> dict[str, Any]:
        return json.loads((self.out / name).read_text())

    def artifacts(self) -> dict[str, Any]:
        return json.loads((self.out / "artifacts.json").read_text())


def capsule_values(
    root: Path, job: JobFolder, package_digest: str, runner_digest: str, ingest_url: str, machines: int
) -> dict[str, Any]:
    """A custom/custom capsule; the contract tests hold it against the model."""
    pool = {"name": "main", "nodes": machines, "gpus_per_node": 0}
    return {
        "apiVersion": "tuneplane/capsule/v1",
        "job": {"id": JOB, "owner": "ada", "attempt": 1},
        "jobspec": {
            "apiVersion": "tuneplane/v1",
            "kind": "TrainingJob",
            "metadata": {"name": "exp", "project": "lab"},
            "spec": {
                "recipe": {"name": "custom/custom", "version": "1.0.0", "digest": DIGEST},
                "framework": {"kind": "custom", "version": "1.0", "observability": "platform"},
                "resources": {"pools": [dict(pool, series="cpu", cpus=1, memory_gb=1)]},
                "limits": {"grace": 5},
            },
            "provenance": {"client_version": "0.1.0", "config_digest": DIGEST, "package_digest": package_digest},
        },
        "recipe": {
            "entrypoint": {"kind": "experiment", "value": "train.sh"},
            "adapter_options": {"observability": "platform"},
            "metrics": {"aliases": {"loss": "train/loss"}},
            "validation": {},
            "artifacts": {"checkpoints": ["checkpoints/checkpoint-*"]},
        },
        "topology": {"pools": [pool], "machine_count": machines},
        "paths": {
            "storage_root": str(root),
            "out_dir": str(job.out),
            "spool_dir": str(job.spool),
            "package": str(job.package),
            "data_cache": str(root / "cache/data"),
            "hub_cache": str(root / "cache/hub"),
            "volumes_dir": str(root / "volumes"),
        },
        "ingest": {"url": ingest_url, "heartbeat_seconds": 0.3, "drain_seconds": 20.0},
        "digests": {"package": package_digest, "runner": runner_digest},
    }


def make_package(files: dict[str, str]) -> bytes:
    members = [(file_member(name, text), text) for name, text in sorted(files.items())]
    return make_archive([(member, text.encode()) for member, text in members])


def file_member(name: str, text: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = len(text.encode())
    return member


def make_archive(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0)


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """For what another process does on disk, where there is no event to wait on."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
