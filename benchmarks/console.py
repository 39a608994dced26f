"""The idle console beside trackio's dashboard and MLflow's server: memory, and seconds from start to the first page."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.measure import Result, answers, free_port, memory_mb, stop, tree, wait_for
from benchmarks.peers import peer_env, peer_python

SETTLE_SECONDS = 5.0


def run() -> list[Result]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        ours = _console(root)
        trackio, mlflow = _trackio(root), _mlflow(root)
    return [
        Result("idle console, memory", ours[1], "MB", "trackio", trackio[1], "≤ 140 MB"),
        Result("idle console, memory", ours[1], "MB", "MLflow", mlflow[1], "≤ 140 MB"),
        Result("start to first page", ours[0], "s", "trackio", trackio[0], "≤ 2 s"),
        Result("start to first page", ours[0], "s", "MLflow", mlflow[0], "≤ 2 s"),
    ]


def _console(root: Path) -> tuple[float, float]:
    port = free_port()
    env = {
        **os.environ,
        "TUNEPLANE_STORAGE_ROOT": str(root / "storage"),
        "TUNEPLANE_PORT": str(port),
        "TUNEPLANE_RUNTIME": "process",
    }
    return _serve(
        [str(Path(sys.executable).parent / "tuneplane-server"), "serve"], env, f"http://127.0.0.1:{port}/signin", root
    )


def _trackio(root: Path) -> tuple[float, float]:
    port = free_port()
    env = peer_env(root / "peer") | {"GRADIO_SERVER_PORT": str(port)}
    code = f"import trackio; trackio.show(open_browser=False, block_thread=True, server_port={port})"
    return _serve([str(peer_python()), "-c", code], env, f"http://127.0.0.1:{port}/", root)


def _mlflow(root: Path) -> tuple[float, float]:
    port = free_port()
    argv = [str(peer_python().parent / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(port)]
    return _serve(
        [*argv, "--backend-store-uri", f"sqlite:///{root}/mlflow.db"],
        peer_env(root / "peer"),
        f"http://127.0.0.1:{port}/",
        root,
    )


def _serve(argv: Sequence[str], env: Mapping[str, str], url: str, cwd: Path) -> tuple[float, float]:
    """(seconds to the first page, MB when idle)."""
    process = subprocess.Popen(argv, env=dict(env), cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        seconds = wait_for(url, lambda: answers(url), 90)
        time.sleep(SETTLE_SECONDS)
        return seconds, memory_mb(tree(process.pid))
    finally:
        stop(process)
