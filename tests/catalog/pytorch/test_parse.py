"""What the adapter renders is what torchrun and the template's own settings take: every shape of job and every setting."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.capsule import OUT, POOLS, capsule, machines, shapes_of, template_config
from tuneplane import adapters
from tuneplane.recipes import index
from tuneplane.recipes.validate import check_config

pytestmark = [pytest.mark.catalog, pytest.mark.timeout(600)]
METHOD = "pytorch/image-classification"
ODD = "a b  'c' \"d\" $HOME $(id) e=f==g\nh\r\n\ti 训练 é 🚀 \\n -- \u2028"
EVERYTHING = {
    "max_steps": 7, "epochs": 3, "optimizer": "sgd", "learning_rate": 1e-05, "warmup_steps": 2, "batch_size": 8,
    "weight_decay": 0.25, "momentum": 0.5, "label_smoothing": 0.125, "max_grad_norm": 2.0, "bf16": True, "channels": 4,
    "blocks": 5, "shift_pixels": 2, "validation_share": 0.5, "logging_steps": 4, "eval_steps": 6, "save_steps": 9,
    "save_total_limit": 1, "seed": 2147483647, "options": {"odd": ODD, "list": [1, 1e-05, None, True, ""], "": {}},
}  # fmt: skip
PARSE = """
import dataclasses, json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from settings import Settings, read_settings
from torch.distributed.run import get_args_parser
answers = []
for line in sys.stdin:
    arguments, config = json.loads(line)
    path = Path(sys.argv[2]) / "config.json"
    path.write_text(config, encoding="utf-8")
    answers.append([vars(get_args_parser().parse_args(arguments)), dataclasses.asdict(read_settings(path))])
print(json.dumps([dataclasses.asdict(Settings()), answers]))
"""


def test_every_shape_and_setting_arrives(framework_env: Callable[[str], Path], tmp_path: Path) -> None:
    entry = index.entry(METHOD)
    template = template_config(METHOD)
    assert set(EVERYTHING) == set(index.config_keys(entry) or {})
    assert check_config(entry, EVERYTHING, {}) == []
    cases = [(shape, rank, template) for shape in shapes_of(METHOD) for rank in range(machines(shape))]
    cases.append(("1x8", 0, EVERYTHING))
    commands = [command_of(*case) for case in cases]
    lines = "".join(json.dumps([command.argv[3:], command.files["config.json"]]) + "\n" for command in commands)
    python = framework_env("pytorch") / "bin/python"
    done = subprocess.run(
        [python, "-c", PARSE, index.CATALOG / METHOD / "template", tmp_path],
        input=lines, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    defaults, answers = json.loads(done.stdout)
    for (shape, rank, config), (launcher, settings) in zip(cases, answers, strict=True):
        _, count, gpus, _ = POOLS[shape][0]
        wanted: dict[str, Any] = {
            "nnodes": str(count), "nproc_per_node": str(gpus), "node_rank": rank, "master_addr": "10.0.0.5",
            "master_port": 29511, "training_script": "train.py", "rdzv_backend": "static", "max_restarts": 0,
            "training_script_args": ["--config", "/tmp/work dir/config.json"],
        }  # fmt: skip
        assert {key: launcher[key] for key in wanted} == wanted
        assert launcher["log_dir"].startswith(f"{OUT}/ranks")
        assert settings == {**defaults, **config}
    print(f"{METHOD}: {len(cases)} commands parsed by torchrun and the template's settings")


def command_of(shape: str, rank: int, config: dict[str, Any]) -> adapters.Command:
    _, count, gpus, _ = POOLS[shape][0]
    machine = adapters.Machine(rank, count, gpus, "10.0.0.5", 29511, work_dir="/tmp/work dir")
    return adapters.compile(capsule(METHOD, config, shape), machine)
