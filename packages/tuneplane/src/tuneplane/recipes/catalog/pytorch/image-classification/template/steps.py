"""What happens in one step: which images, at which rate, forward and backward, and what is measured. Every process does its share."""

import math
import os

import torch
import torch.distributed as dist
from job_data import Images
from settings import Settings
from torch import nn
from torch.nn.functional import cross_entropy

# As torchrun says; one process without it.
RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if CUDA else torch.device("cpu")


def rows_of(count: int, epoch: int, index: int, settings: Settings) -> torch.Tensor:
    """This process's rows of a batch: each epoch has an order of its own, the same on every process and on every resume."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(settings.seed * 1_000_003 + epoch))
    size = settings.batch_size * WORLD
    return order[index * size : (index + 1) * size][RANK::WORLD]


def shifted(images: torch.Tensor, step: int, settings: Settings) -> torch.Tensor:
    """Each image moved by up to `shift_pixels`, so that the network learns shapes and not places."""
    if not settings.shift_pixels:
        return images
    dice = torch.Generator().manual_seed((settings.seed * 1_000_003 + step) * WORLD + RANK)
    span = 2 * settings.shift_pixels + 1
    moves = (torch.randint(span, (len(images), 2), generator=dice) - settings.shift_pixels).tolist()
    return torch.stack([torch.roll(image, move, dims=(1, 2)) for image, move in zip(images, moves, strict=True)])


def rate_at(step: int, last: int, settings: Settings) -> float:
    """Up over `warmup_steps`, then down to 0 along a cosine. Of the step alone, so that nothing has to be restored."""
    if step <= settings.warmup_steps:
        return settings.learning_rate * step / settings.warmup_steps
    done = (step - settings.warmup_steps - 1) / max(1, last - settings.warmup_steps)
    return settings.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


def make_optimizer(model: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    if settings.optimizer == "sgd":
        return torch.optim.SGD(
            model.parameters(), settings.learning_rate, settings.momentum, weight_decay=settings.weight_decay
        )
    return torch.optim.AdamW(model.parameters(), settings.learning_rate, weight_decay=settings.weight_decay)


def update(
    model: nn.Module, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor, settings: Settings
) -> dict[str, float]:
    """One optimizer step; loss, accuracy and the gradient's norm before it."""
    model.train()
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=settings.bf16):
        scores = model(images)
        loss = cross_entropy(scores.float(), labels, label_smoothing=settings.label_smoothing)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm or math.inf)
    optimizer.step()
    accuracy = (scores.argmax(1) == labels).float().mean()
    return {"loss": loss.item(), "accuracy": accuracy.item(), "grad_norm": norm.item()}


@torch.no_grad()
def evaluate(model: nn.Module, data: Images, settings: Settings) -> dict[str, float]:
    """Loss and accuracy over all of `data`, of which each process sees its share."""
    model.eval()
    totals = torch.zeros(3, dtype=torch.float64, device=DEVICE)
    for rows in torch.arange(RANK, len(data), WORLD).split(settings.batch_size * 4):
        images, labels = data.batch(rows, DEVICE)
        scores = model(images)
        totals[0] += cross_entropy(scores, labels, reduction="sum")
        totals[1] += (scores.argmax(1) == labels).sum()
        totals[2] += len(rows)
    if WORLD > 1:
        dist.all_reduce(totals)
    loss, right, count = totals.tolist()
    return {"eval_loss": loss / count, "eval_accuracy": right / count}


def mean_of_processes(values: dict[str, float]) -> dict[str, float]:
    if WORLD == 1:
        return values
    numbers = torch.tensor(list(values.values()), dtype=torch.float64, device=DEVICE)
    dist.all_reduce(numbers)
    return dict(zip(values, (numbers / WORLD).tolist(), strict=True))
