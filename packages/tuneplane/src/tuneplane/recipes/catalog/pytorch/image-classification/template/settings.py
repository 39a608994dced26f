"""What config.yaml may say. A new setting is a new field here; values for code of your own also fit into `options`, whatever they are.

`tp validate` checks against the fields as they are in the recipe's template; a key that only your copy has goes into `options`.
"""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import yaml


def at_least(default: Any, limit: float) -> Any:
    return field(default=default, metadata={"min": limit})


@dataclass
class Settings:
    # How long. `max_steps` of -1 trains `epochs` over all data.
    max_steps: int = at_least(-1, -1)
    epochs: int = at_least(10, 1)
    # How fast. The rate rises over `warmup_steps` and falls to 0 along a cosine.
    optimizer: Literal["adamw", "sgd"] = "adamw"
    learning_rate: float = at_least(1e-3, 0)
    warmup_steps: int = at_least(0, 0)
    batch_size: int = at_least(32, 1)  # of each process
    weight_decay: float = at_least(0.01, 0)
    momentum: float = field(default=0.9, metadata={"min": 0, "exclusive_max": 1})
    label_smoothing: float = field(default=0.0, metadata={"min": 0, "exclusive_max": 1})
    max_grad_norm: float = at_least(1.0, 0)
    bf16: bool = False
    # The network, and what is done to the images.
    channels: int = at_least(32, 1)
    blocks: int = at_least(2, 1)
    shift_pixels: int = at_least(0, 0)
    # The share of the data that is kept for validation where the job names no validation data.
    validation_share: float = field(default=0.2, metadata={"exclusive_min": 0, "exclusive_max": 1})
    # What is kept.
    logging_steps: int = at_least(10, 1)
    eval_steps: int = at_least(100, 1)
    save_steps: int = at_least(100, 1)
    save_total_limit: int = at_least(3, 1)
    seed: int = field(default=42, metadata={"min": 0, "max": 2**31 - 1})
    options: dict[str, Any] = field(default_factory=dict)


def read_settings(path: Path) -> Settings:
    """Of a YAML or JSON file. `SystemExit` for a key that is no setting."""
    values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    unknown = sorted(set(values) - {item.name for item in fields(Settings)} - {"data", "eval", "defaults"})
    if unknown:
        raise SystemExit(f"{path}: there is no setting {', '.join(unknown)}; see settings.py")
    return Settings(**{name: value for name, value in values.items() if name not in ("data", "eval", "defaults")})
