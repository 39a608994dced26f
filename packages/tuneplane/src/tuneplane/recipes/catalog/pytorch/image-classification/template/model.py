"""A small residual network. Change it, or return one of your own from `build`."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(1, channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(1, channels),
        )  # fmt: skip

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(images + self.layers(images))


class Classifier(nn.Module):
    """Takes images as they are in the data: what they are normalised with is part of the weights."""

    def __init__(self, colours: int, classes: int, channels: int, blocks: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(1))
        self.register_buffer("spread", torch.ones(1))
        self.first = nn.Conv2d(colours, channels, 3, padding=1)
        self.blocks = nn.Sequential(*(Block(channels) for _ in range(blocks)))
        self.last = nn.Linear(16 * channels, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.blocks(torch.relu(self.first((images - self.mean) / self.spread)))
        return self.last(nn.functional.adaptive_avg_pool2d(hidden, 4).flatten(1))


def build(images: torch.Tensor, classes: int, channels: int, blocks: int) -> Classifier:
    """`images` as the data has them, rows × height × width × colours."""
    model = Classifier(images.shape[-1], classes, channels, blocks)
    values = images.float()
    model.mean.fill_(values.mean())
    model.spread.fill_(values.std().clamp(min=1e-6))
    return model
