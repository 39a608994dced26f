"""Runs in verl's environment: compose each command line as Hydra would at the start of the job, and compare.

    python compose_cases.py CASES.json

A case: {name, tree, argv, wanted: {path: value}, check}. Prints one JSON list of what is wrong, with the name of the case in front.
"""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")


def problems_of(path: str) -> list[str]:
    import verl.trainer
    from hydra import initialize_config_dir

    cases = json.loads(Path(path).read_text(encoding="utf-8"))
    problems: list[str] = []
    with initialize_config_dir(config_dir=str(Path(verl.trainer.__file__).parent / "config"), version_base=None):
        for case in cases:
            problems += [f"{case['name']}: {problem}" for problem in check(case)]
    return problems


def check(case: dict[str, Any]) -> list[str]:
    from hydra import compose
    from hydra._internal.utils import get_args_parser
    from omegaconf import OmegaConf

    try:
        found = get_args_parser().parse_args(case["argv"]).overrides
        config = compose(case["tree"], overrides=found)
        values = {path: plain(OmegaConf.select(config, path, throw_on_missing=True)) for path in case["wanted"]}
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return [f"{type(error).__name__}: {error}"]
    wrong = [
        f"{path} is {values[path]!r}, asked for {value!r}"
        for path, value in case["wanted"].items()
        if values[path] != value or type(values[path]) is not type(value)
    ]
    return wrong or (own_check(case["tree"], config) if case["check"] else [])


def plain(value: Any) -> Any:
    from omegaconf import OmegaConf

    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def own_check(tree: str, config: Any) -> list[str]:
    """verl's own checks of a configuration, which main_ppo and sft_trainer make before anything else."""
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    config = config.copy()
    if "critic" in config:
        config.critic.model = None  # it reads the model's files, and there is no model here
    try:
        if tree == "ppo_trainer":
            validate_config(config, need_reference_policy(config), need_critic(config))
            for section in (config.actor_rollout_ref.rollout, config.algorithm, config.distillation):
                omega_conf_to_dataclass(section)
        else:
            for section in (config.engine, config.optim, config.checkpoint, config.profiler):
                omega_conf_to_dataclass(section)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return [f"verl refuses it: {type(error).__name__}: {error}"]
    return []


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):  # verl prints while it checks
        found = problems_of(sys.argv[1])
    print(json.dumps(found))
