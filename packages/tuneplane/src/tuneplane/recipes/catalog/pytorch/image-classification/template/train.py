"""Image classification with PyTorch: one process per card under torchrun (DistributedDataParallel); without cards, on CPUs.

On the platform: `tp submit <experiment>`. By hand, in an environment that has torch: `python train.py --config config.yaml`, or
`torchrun --nproc-per-node 2 train.py --config config.yaml`.
"""

import argparse
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

import checkpoints
import torch
import torch.distributed as dist
from job_data import job_data
from model import build
from settings import Settings, read_settings
from steps import (
    CUDA,
    DEVICE,
    RANK,
    WORLD,
    evaluate,
    make_optimizer,
    mean_of_processes,
    rate_at,
    rows_of,
    shifted,
    update,
)
from torch.nn.parallel import DistributedDataParallel

try:
    from tuneplane import report
except ImportError:  # by hand, without the platform: the output is all there is
    report = None

OUT = Path(os.environ.get("TUNEPLANE_OUT_DIR") or tempfile.mkdtemp(prefix="tuneplane-"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, default=Path("config.yaml"))
    settings = read_settings(parser.parse_args().config)
    if CUDA:
        torch.cuda.set_device(DEVICE)
    if WORLD > 1:
        dist.init_process_group("nccl" if CUDA else "gloo")
    if report:
        report.init(config={**asdict(settings), "processes": WORLD})
    train(settings)
    if report:
        report.finish()
    if WORLD > 1:
        dist.destroy_process_group()


def train(settings: Settings) -> None:
    train_data, validation_data = job_data(settings.validation_share, settings.seed)
    batches = len(train_data) // (
        settings.batch_size * WORLD
    )  # of an epoch; the rows that are left over wait for another
    if not batches:
        raise SystemExit(f"{len(train_data)} images are less than a batch of {settings.batch_size} × {WORLD} processes")
    last = settings.max_steps if settings.max_steps > 0 else settings.epochs * batches
    classes = int(max(train_data.labels.max(), validation_data.labels.max())) + 1
    torch.manual_seed(settings.seed)
    model = build(train_data.images, classes, settings.channels, settings.blocks).to(DEVICE)
    optimizer = make_optimizer(model, settings)
    first = resume(model, optimizer) + 1
    parallel = DistributedDataParallel(model) if WORLD > 1 else model
    for step in range(first, last + 1):
        epoch, index = divmod(step - 1, batches)
        rate = optimizer.param_groups[0]["lr"] = rate_at(step, last, settings)
        images, labels = train_data.batch(rows_of(len(train_data), epoch, index, settings), DEVICE)
        measured = update(parallel, optimizer, shifted(images, step, settings), labels, settings)
        if step % settings.logging_steps == 0 or step == last:
            log({**mean_of_processes(measured), "learning_rate": rate}, step, step / batches)
        if step % settings.eval_steps == 0 or step == last:
            log(evaluate(model, validation_data, settings), step, step / batches)
        if RANK == 0 and (step % settings.save_steps == 0 or step == last):
            keep(model, optimizer, step, settings)
    if RANK == 0:
        shape = {"images": list(train_data.images.shape[1:]), "classes": classes, **asdict(settings)}
        (OUT / "model").mkdir(exist_ok=True)
        checkpoints.write(OUT / "model" / "model.pt", model.state_dict())
        (OUT / "model" / "model.json").write_text(json.dumps(shape, indent=1) + "\n")
        print(f"model saved to {OUT / 'model'}")


def resume(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The step that is done already: that of the checkpoint which the platform names after a restart, 0 without one."""
    source = os.environ.get("TUNEPLANE_RESUME_FROM")
    if not source:
        return 0
    state = checkpoints.load(source, DEVICE)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def keep(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int, settings: Settings) -> None:
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    path = checkpoints.save(OUT, step, state, settings.save_total_limit)
    if report:
        report.log_event("checkpoint", {"path": str(path.absolute()), "step": step})


def log(metrics: dict[str, float], step: int, epoch: float) -> None:
    if RANK:
        return
    print(f"step {step} " + " ".join(f"{name} {value:.4g}" for name, value in metrics.items()), flush=True)
    if report:
        report.log(metrics, step=step, epoch=epoch)


if __name__ == "__main__":
    main()
