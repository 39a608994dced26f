"""The images: the job's data sets (`data.train`, `data.validation` in config.yaml), else the handwritten digits of scikit-learn.

A data set is one .npz file, or a directory of them, with the arrays `images` (rows × height × width, or × channels) and `labels`.
"""

import os
from pathlib import Path

import numpy as np
import torch


class Images:
    """Rows on the CPU; a batch of them becomes floats, channels first, on the device that asks."""

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        if images.ndim not in (3, 4) or len(images) != len(labels):
            raise SystemExit(f"images of shape {images.shape} and {len(labels)} labels do not go together")
        self.images = torch.from_numpy(images if images.ndim == 4 else images[..., None])
        self.labels = torch.from_numpy(labels.astype(np.int64))

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, rows: torch.Tensor, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        images = self.images[rows].permute(0, 3, 1, 2).to(device, torch.float32)
        return images, self.labels[rows].to(device)

    def part(self, rows: torch.Tensor) -> "Images":
        return Images(self.images[rows].numpy(), self.labels[rows].numpy())


def job_data(validation_share: float, seed: int) -> tuple[Images, Images]:
    """`(train, validation)`; a share of the training data is validation data when the job names none."""
    source, held_out = os.environ.get("TRAIN_DATA_DIR"), os.environ.get("VALIDATION_DATA_DIR")
    everything = read_images(Path(source)) if source else digits()
    if held_out:
        return everything, read_images(Path(held_out))
    order = torch.randperm(len(everything), generator=torch.Generator().manual_seed(seed))
    count = max(1, round(validation_share * len(everything)))
    return everything.part(order[count:]), everything.part(order[:count])


def read_images(source: Path) -> Images:
    files = [source] if source.is_file() else sorted(source.rglob("*.npz"))
    if not files:
        raise SystemExit(f"no .npz file in {source}")
    parts = [np.load(file, allow_pickle=False) for file in files]
    return Images(*(np.concatenate([part[name] for part in parts]) for name in ("images", "labels")))


def digits() -> Images:
    """1,797 scans of handwritten digits, 8 × 8 pixels (UCI, Alpaydin and Kaynak 1998)."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return Images(found.images.astype(np.float32), found.target)
