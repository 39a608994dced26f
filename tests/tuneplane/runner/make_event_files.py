"""How event_files.json was made: by the writers themselves, in an environment with torch 2.13, tensorboard 2.21 and tensorboardX
2.6.5: `python make_event_files.py > event_files.json`."""

from __future__ import annotations

import base64
import json
import math
import socket
import tempfile
from pathlib import Path

import numpy as np
from tensorboard.summary import Writer  # ty: ignore[import-not-found]
from tensorboardX import SummaryWriter as XWriter  # ty: ignore[import-not-found]
from torch.utils.tensorboard import SummaryWriter

START = 1764000000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        torch_writer(out / "torch")
        tensorboardx_writer(out / "tensorboardx")
        tensor_writer(out / "tensor")
        files = {
            str(path.relative_to(out)).replace(socket.gethostname(), "host"): base64.b64encode(
                path.read_bytes()
            ).decode()
            for path in sorted(out.rglob("*tfevents*"))
        }
    print(json.dumps(files, indent=1))


def torch_writer(folder: Path) -> None:
    writer = SummaryWriter(str(folder))
    for step in range(5):
        writer.add_scalar("train/loss", 1.0 / (step + 1), step, walltime=START + step)
    writer.add_scalar("train/tensor", 0.25, 7, walltime=START + 7, new_style=True)
    writer.add_scalar("train/nan", math.nan, 1)
    writer.add_scalar("train/inf", -math.inf, 1)
    writer.add_histogram("weights", np.arange(10), 1, bins=4)
    writer.add_text("note", "hello", 1)
    writer.add_scalars("both", {"train": 1.0, "validation": 2.0}, 3)
    writer.add_hparams({"lr": 0.1}, {"hparam/acc": 0.5}, run_name="hp")
    writer.close()


def tensorboardx_writer(folder: Path) -> None:
    writer = XWriter(str(folder))
    for step in range(3):
        writer.add_scalar("eval/acc", step / 4, step, walltime=START + step)
    writer.add_scalar("named", 3.5, 9, display_name="shown", walltime=START + 9)
    writer.close()


def tensor_writer(folder: Path) -> None:
    """TensorFlow 2's form of a scalar."""
    writer = Writer(str(folder))
    for step in range(3):
        writer.add_scalar("epoch_loss", 0.5 + step, step, wall_time=START + step)
    writer.close()


if __name__ == "__main__":
    main()
