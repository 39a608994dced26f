"""A trainer for the end-to-end tests: counts steps, saves checkpoints in the layout of transformers, goes on from one."""

from __future__ import annotations

import textwrap
from pathlib import Path

from tests.e2e.harness import Client

# Steps to COUNT; saves every SAVE steps and at SIGTERM, when it ends with 0. At the step FAIL it dies with 7. After the step HOLD it
# waits for the file CONTROL/go. What it did is told in its output: `from N`, `step N`, `saved N`.
COUNTING = textwrap.dedent("""\
    import json, os, signal, struct, sys, time
    from pathlib import Path

    out = Path(os.environ["TUNEPLANE_OUT_DIR"])
    want = {name: int(os.environ.get(name, "0")) for name in ("COUNT", "SAVE", "FAIL", "HOLD")}
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(True))


    def save(step):
        folder = out / "checkpoints" / f"checkpoint-{step}"
        draft = folder.with_name(f"tmp-checkpoint-{step}")
        draft.mkdir(parents=True, exist_ok=True)
        header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        (draft / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<f", step))
        for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
            (draft / name).write_bytes(b"x")
        (draft / "trainer_state.json").write_text(json.dumps({"global_step": step}))
        if not folder.exists():
            draft.rename(folder)
        print(f"saved {step}", flush=True)


    start = os.environ.get("TUNEPLANE_RESUME_FROM")
    step = json.loads((Path(start) / "trainer_state.json").read_text())["global_step"] if start else 0
    print(f"from {step}", flush=True)
    while step < want["COUNT"]:
        step += 1
        print(f"step {step}", flush=True)
        if want["SAVE"] and step % want["SAVE"] == 0:
            save(step)
        if step == want["FAIL"]:
            sys.exit(7)
        while step == want["HOLD"] and not told and not (Path(os.environ["CONTROL"]) / "go").exists():
            time.sleep(0.05)
        if told:
            save(step)
            sys.exit(0)
    """)


def counting(client: Client, name: str) -> None:
    """An experiment of custom/custom whose trainer is `COUNTING`."""
    experiment = client.new(name, "custom/custom")
    (experiment / "train.sh").write_text("exec python3 count.py\n")
    (experiment / "count.py").write_text(COUNTING)


def submit_counting(
    client: Client, name: str, control: Path, *options: str, profile: str = "cpu", **numbers: int
) -> str:
    """Submit it with COUNT, SAVE, FAIL, HOLD; the run id."""
    control.mkdir(exist_ok=True)
    given = [f"CONTROL={control}", *(f"{key}={value}" for key, value in numbers.items())]
    env = [part for item in given for part in ("--env", item)]
    answer = client.tp("submit", name, "--profile", profile, "--observability", "platform", *env, *options, "--json")
    run: str = answer.json["id"]
    return run


def said(client: Client, run: str, *options: str) -> list[str]:
    """The lines of its output that tell what it did."""
    lines = client.tp("job", "logs", run, "--no-follow", *options).out.splitlines()
    return [line for line in lines if line.startswith(("from ", "step ", "saved "))]
