"""A console, a lab and one real fine-tuning run on this machine, with nothing but the commands a user types.

Everything lies in TUNEPLANE_QUICKSTART_DIR. With a terminal the console stays open until Ctrl-C; without one this exits
0 once the run has succeeded, and stops what it started.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
ROOT = Path(os.environ["TUNEPLANE_QUICKSTART_DIR"]).absolute()
LAB, STORAGE, HOME = ROOT / "lab", ROOT / "storage", ROOT / "home"
USER, EXPERIMENT, METHOD, RUNTIME = "quickstart", "first", "trl/sft", "trl-1.16"
START_SECONDS = 60


def main() -> int:
    ROOT.mkdir(parents=True, exist_ok=True)
    env = environment()
    step("1/5 training runtime", f"a Python environment with TRL at {os.environ['TUNEPLANE_RUNTIMES_DIR']}")
    call([BIN / "tuneplane-server", "runtime", "build", RUNTIME], env)
    step("2/5 console", f"storage root {STORAGE}")
    password = first_account(env)
    server = subprocess.Popen(
        [BIN / "tuneplane-server", "serve"],
        env=env,
        stdout=(ROOT / "console.log").open("ab"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        address = env["TUNEPLANE_PUBLIC_URL"]
        wait_until_up(server, f"{address}/readyz")
        step("3/5 lab", str(LAB))
        make_lab(env, address)
        step("4/5 run", f"tp submit {EXPERIMENT} --profile cpu --follow")
        run = train(env)
        step("5/5 result", "")
        report(env, run, address, password)
        return stay_open(server, address)
    finally:
        stop(server)


def environment() -> dict[str, str]:
    port = free_port(8642)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TUNEPLANE_") or name == "TUNEPLANE_LANG"
    }
    return kept | {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "TUNEPLANE_STORAGE_ROOT": str(STORAGE),
        "TUNEPLANE_RUNTIMES_DIR": os.environ["TUNEPLANE_RUNTIMES_DIR"],
        "TUNEPLANE_HOME": str(HOME),
        "TUNEPLANE_RUNTIME": "process",
        "TUNEPLANE_PORT": str(port),
        "TUNEPLANE_PUBLIC_URL": f"http://127.0.0.1:{port}",
    }


def free_port(wanted: int) -> int:
    """The wanted port if nobody listens there, else any free one."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found: int = probe.getsockname()[1]
            return found
    raise SystemExit("no free port on 127.0.0.1")


def first_account(env: dict[str, str]) -> str:
    """Make the account once; its random password is kept in a file that only its owner reads."""
    kept, pending = ROOT / "password", ROOT / "password.new"
    if kept.exists():
        return kept.read_text().strip()
    # Whoever finds it written was killed here before, and may have made the account already.
    begun = pending.exists() and pending.stat().st_size > 0
    if not begun:
        pending.touch(mode=0o600)
        pending.write_text(secrets.token_urlsafe(12) + "\n")
    password = pending.read_text().strip()
    add = [BIN / "tuneplane-server", "user", "add", USER, "--admin", "--password-stdin"]
    if begun:
        subprocess.run(add, env=env, input=password + "\n", text=True, check=False, capture_output=True, timeout=60)
    else:
        call(add, env, text=password + "\n")
    pending.rename(kept)
    return password


def make_lab(env: dict[str, str], address: str) -> None:
    token = capture([BIN / "tuneplane-server", "token", "create", "--user", USER, "--name", "quickstart"], env).strip()
    call([BIN / "tp", "login", address, "--token-stdin"], env, text=token + "\n")
    if not (LAB / "tuneplane.yaml").exists():
        call([BIN / "tp", "init", str(LAB)], env)
    if not (LAB / "experiments" / EXPERIMENT).exists():
        call([BIN / "tp", "new", EXPERIMENT, "--method", METHOD], env, cwd=LAB)
    call([BIN / "tp", "recipe", "lock", EXPERIMENT], env, cwd=LAB)
    call([BIN / "tp", "validate", EXPERIMENT], env, cwd=LAB)


def train(env: dict[str, str]) -> str:
    answer = json.loads(capture([BIN / "tp", "submit", EXPERIMENT, "--profile", "cpu", "--json"], env, cwd=LAB))
    run: str = answer["id"]
    print(f"run {run}", flush=True)
    subprocess.run([BIN / "tp", "job", "logs", run, "--follow"], env=env, cwd=LAB, check=False, timeout=900)
    done = subprocess.run([BIN / "tp", "job", "wait", run], env=env, cwd=LAB, check=False, timeout=900)
    if done.returncode:
        subprocess.run([BIN / "tp", "job", "show", run], env=env, cwd=LAB, check=False, timeout=60)
        raise SystemExit(f"the run did not succeed; the console's log is {ROOT / 'console.log'}")
    return run


def report(env: dict[str, str], run: str, address: str, password: str) -> None:
    losses = curve(env, run, "train/loss")
    artifacts = json.loads(capture([BIN / "tp", "job", "artifacts", run, "--json"], env))
    complete = [item for item in artifacts["checkpoints"] if item["complete"]]
    if len(losses) < 2 or losses[-1] >= losses[0]:
        raise SystemExit(f"the loss did not fall: {losses}")
    if not complete:
        raise SystemExit("the run left no complete checkpoint")
    newest = max(complete, key=lambda item: item["step"])
    subprocess.run([BIN / "tp", "job", "metrics", run], env=env, check=False, timeout=60)
    print(f"\nloss         {losses[0]:.4f} → {losses[-1]:.4f}")
    print(f"checkpoint   {Path(artifacts['out_dir']) / newest['path']}")
    print(f"console      {address}/jobs/{run}")
    print(f"sign in      {USER} / {password}   (also in {ROOT / 'password'})")
    home, path, lab = (shlex.quote(str(part)) for part in (HOME, BIN, LAB))
    print(f"your lab     cd {lab} && export TUNEPLANE_HOME={home} PATH={path}:$PATH", flush=True)


def curve(env: dict[str, str], run: str, name: str) -> list[float]:
    answer: dict[str, Any] = json.loads(capture([BIN / "tp", "job", "metrics", run, name, "--json"], env))
    return [value for part in answer["series"][name] for value in part["value"]]


def stay_open(server: subprocess.Popen[bytes], address: str) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("\nThe console ends now; on a terminal make quickstart keeps it open.", flush=True)
        return 0
    print(f"\nThe console stays open at {address}. Ctrl-C ends it.", flush=True)
    try:
        return server.wait()
    except KeyboardInterrupt:
        return 0


def stop(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is None:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(5)


def wait_until_up(server: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise SystemExit(f"the console ended with code {server.returncode}; see {ROOT / 'console.log'}")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise SystemExit(f"the console did not answer at {url} within {START_SECONDS} s; see {ROOT / 'console.log'}")


def call(argv: list[Any], env: dict[str, str], *, cwd: Path | None = None, text: str | None = None) -> None:
    done = subprocess.run(
        [str(part) for part in argv], env=env, cwd=cwd, check=False, input=text, text=True, timeout=1800
    )
    if done.returncode:
        raise SystemExit(done.returncode)


def capture(argv: list[Any], env: dict[str, str], *, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in argv], env=env, cwd=cwd, check=False, stdout=subprocess.PIPE, text=True, timeout=300
    )
    if done.returncode:
        raise SystemExit(done.returncode)
    return done.stdout


def step(title: str, detail: str) -> None:
    print(f"\n== {title}  {detail}".rstrip(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
