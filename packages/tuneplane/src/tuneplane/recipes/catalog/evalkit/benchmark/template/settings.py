"""What config.yaml may say. `tp validate` checks against the fields as they are in the recipe's template."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import yaml
from packs import PACKS


@dataclass
class Settings:
    # Who measures. lm-eval: public benchmarks and tasks of your own; judge: a judge model grades answers; safety: does the model refuse
    # what it should, and only that.
    runner: Literal["lm-eval", "judge", "safety"] = "lm-eval"
    packs: list[str] = field(
        default_factory=list, metadata={"choices": list(PACKS)}
    )  # of lm-eval's tasks; see packs.py
    tasks: list[str] = field(default_factory=list)  # lm-eval's own names, and those of tasks/*.yaml beside this file
    limit: int | None = field(default=None, metadata={"min": 1})  # the first rows of each task
    num_fewshot: int | None = field(default=None, metadata={"min": 0})  # None: as the task says
    # How the model is asked.
    backend: Literal["hf", "vllm"] = "hf"
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    batch_size: int = field(default=8, metadata={"min": 1})
    max_length: int | None = field(default=None, metadata={"min": 1})
    max_new_tokens: int | None = field(
        default=None, metadata={"min": 1}
    )  # None: as the task says; 256 for judge and safety
    temperature: float | None = field(
        default=None, metadata={"min": 0}
    )  # None: as the task says; 0 for judge and safety
    apply_chat_template: bool = True
    system_prompt: str | None = None
    trust_remote_code: bool = False
    allow_code: bool = False  # humaneval and mbpp run the code that the model wrote, on this machine
    # What is reported.
    confidence: float = field(default=0.95, metadata={"exclusive_min": 0, "exclusive_max": 1})
    samples: int = field(default=8, metadata={"min": 0})  # answers of each task to show in the console
    seed: int = field(default=42, metadata={"min": 0, "max": 2**31 - 1})


def read_settings(path: Path) -> Settings:
    """Of a YAML or JSON file. `SystemExit` for a key that is no setting."""
    values: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    values = {name: value for name, value in values.items() if name not in ("data", "eval", "defaults")}
    unknown = sorted(set(values) - {item.name for item in fields(Settings)})
    if unknown:
        raise SystemExit(f"{path}: there is no setting {', '.join(unknown)}; see settings.py")
    return Settings(**values)
