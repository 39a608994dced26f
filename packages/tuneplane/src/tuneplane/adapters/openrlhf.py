"""OpenRLHF 0.11: command-line flags. Reinforcement learning (`openrlhf.cli.train_ppo_ray`) on Ray, the others under torchrun.

Flags are written without their dashes in `config.yaml`, `actor.adam.lr: 1e-6` or nested. Sources: `openrlhf/cli/*.py` of 0.11.2.
"""

from __future__ import annotations

import posixpath
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from tuneplane.adapters.command import AdapterError, Command, LogHint, Machine
from tuneplane.adapters.experiment import experiment_dir, named_model
from tuneplane.adapters.pools import TRAIN, Pools, pools_of
from tuneplane.adapters.prepare import Preparation
from tuneplane.adapters.ray import ray_command
from tuneplane.adapters.torchrun import torchrun_argv, torchrun_env, torchrun_hints

CHECKPOINTS, MODEL, TENSORBOARD = "checkpoints", "model", "tensorboard"  # below the out dir
_RUN_NAME = "run"
_RL_MODULE = "openrlhf.cli.train_ppo_ray"
_PARTS = ("_actor", "_critic")  # of a checkpoint of train_ppo_ray: folders beside each other
_LATEST = "latest"  # DeepSpeed's pointer to the checkpoint to load
_FILES_OF_THE_EXPERIMENT = ("reward.remote_url", "train.agent_func_path")
_PERIODS = ("ckpt.save_steps", "eval.steps")  # OpenRLHF divides by them
_SWITCHED_OFF = {"nesterov": "no_nesterov"}  # flags that are on unless another switches them off


def compile_command(capsule: Mapping[str, Any], machine: Machine) -> Command:
    pools = pools_of(capsule)
    if pools.gpus(TRAIN) == 0:
        raise AdapterError("OpenRLHF trains on GPUs: give tp submit --profile <card>:<number>")
    module = str(capsule["recipe"]["entrypoint"]["value"])
    flags, preparation = user_flags(capsule), Preparation(machine)
    flags.update(_out_flags(capsule))
    hints = (LogHint("tensorboard", TENSORBOARD),)
    if module == _RL_MODULE:
        flags.update(_rl_flags(capsule, flags, pools, preparation))
        flags.update(_resume_flags(capsule, preparation))
        driver, files = preparation.wrap([machine.python, "-m", module, *argv_of(flags)])
        env = {"PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "true"}
        return ray_command(capsule, machine, driver, files=files, env=env, log_hints=hints)
    flags.update(_offline_flags(capsule))
    flags.update(_resume_flags(capsule, preparation))
    program = [module, *argv_of(flags)]
    launcher = torchrun_argv(machine, program, out_dir=capsule["paths"]["out_dir"], module=True)
    argv, files = preparation.wrap(launcher)
    return Command(
        argv=tuple(argv),
        cwd_relative=experiment_dir(capsule),
        env=torchrun_env(capsule, machine),
        files=files,
        log_hints=hints + torchrun_hints(machine),
    )


def user_flags(capsule: Mapping[str, Any]) -> Dict[str, Any]:
    """Flag -> value of `config.yaml`, then `--set`, then what the recipe fixes. Raises `AdapterError` for a flag that is given twice."""
    spec, recipe = capsule["jobspec"]["spec"], capsule["recipe"]
    flags: Dict[str, Any] = {}
    for flag, value in _flat(spec.get("config") or {}):
        if flag in flags and flags[flag] != value:
            raise AdapterError(f"{flag} is in config.yaml twice, as {flag} and nested")
        flags[flag] = value
    paths = recipe.get("param_paths") or {}
    for name, value in (spec.get("hyperparams") or {}).items():
        if name not in paths:
            raise AdapterError(f"the recipe has no parameter {name!r}")
        flags[paths[name]] = value
    flags.update(recipe["adapter_options"].get("fixed") or {})
    for flag in _PERIODS:
        if flags.get(flag) == 0:
            raise AdapterError(f"{flag} 0 is no period: write -1 instead")
    return flags


def argv_of(flags: Mapping[str, Any]) -> List[str]:
    """As argparse reads them: `--flag=value`, so that a value may begin with a dash or be empty; a list behind its flag; switches alone."""
    argv: List[str] = []
    for flag, value in flags.items():
        if value is None:
            continue
        if isinstance(value, bool):
            parents, dot, last = flag.rpartition(".")
            if value:
                argv.append(f"--{flag}")
            elif last in _SWITCHED_OFF:
                argv.append(f"--{parents}{dot}{_SWITCHED_OFF[last]}")
        elif isinstance(value, (list, tuple)):
            argv += [f"--{flag}", *(_item(flag, item) for item in value)]
        elif isinstance(value, dict):
            raise AdapterError(f"{flag} takes no keys and values")
        else:
            argv.append(f"--{flag}={_text(value)}")
    return argv


def _item(flag: str, value: Any) -> str:
    text = _text(value)
    if isinstance(value, str) and text.startswith("-"):
        raise AdapterError(f"an item of {flag} begins with a dash, which argparse takes for a flag")
    return text


def _text(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    # argparse takes `-1e-05` behind a flag for another flag, and `-0.00001` for a number.
    text = repr(value)
    return f"{value:.20f}".rstrip("0") if value < 0 and "e" in text else text


def _out_flags(capsule: Mapping[str, Any]) -> Dict[str, Any]:
    out = capsule["paths"]["out_dir"]
    return {
        "ckpt.path": f"{out}/{CHECKPOINTS}",
        "ckpt.output_dir": f"{out}/{MODEL}",
        "logger.tensorboard_dir": f"{out}/{TENSORBOARD}",
        "logger.wandb.run_name": _RUN_NAME,  # the folder below, whose name is the time of day otherwise
    }


def _offline_flags(capsule: Mapping[str, Any]) -> Dict[str, Any]:
    """sft, dpo and rm. The working directory is the experiment's on every machine, so the sample is named relative to it."""
    train, validation = _data(capsule, ".")
    return {
        "model.model_name_or_path": named_model(capsule, "OpenRLHF"),
        "data.dataset": train,
        "data.dataset_split": _split(capsule, "train"),
        "eval.dataset": validation,
        "eval.split": _split(capsule, "validation"),
    }


def _rl_flags(
    capsule: Mapping[str, Any], flags: Mapping[str, Any], pools: Pools, preparation: Preparation
) -> Dict[str, Any]:
    experiment = preparation.shared_experiment(capsule)
    train, validation = _data(capsule, experiment)
    found: Dict[str, Any] = {
        "actor.model_name_or_path": named_model(capsule, "OpenRLHF"),
        "data.prompt_dataset": train,
        "data.prompt_split": _split(capsule, "train"),
        **_placement(flags, pools),
    }
    for flag in _FILES_OF_THE_EXPERIMENT:
        value = flags.get(flag)
        if isinstance(value, str) and value.endswith(".py") and not value.startswith("/"):
            found[flag] = posixpath.join(experiment, value)  # read by the engines, whose directory is Ray's
    scored = flags.get("reward.remote_url") or flags.get("train.agent_func_path")
    if not scored and not flags.get("reward.model_name_or_path"):
        raise AdapterError(
            "nothing gives rewards: set reward.remote_url, train.agent_func_path or reward.model_name_or_path"
        )
    if scored:  # OpenRLHF evaluates with a reward function or an agent only
        found.update({"eval.dataset": validation, "eval.split": _split(capsule, "validation")})
    return found


def _placement(flags: Mapping[str, Any], pools: Pools) -> Dict[str, Any]:
    """Which cards hold what. One pool: all models and vLLM share every card and sleep in turns. Two pools: the models of the trainer share
    the cards of `train`, vLLM has those of `rollout`, and both work at the same time (OpenRLHF's asynchronous mode)."""
    nodes, gpus = pools.shape(TRAIN)
    size = int(flags.get("vllm.tensor_parallel_size") or 1)
    cards = pools.gpus("rollout")
    if cards % size:
        raise AdapterError(f"vllm.tensor_parallel_size {size} does not divide the {cards} GPUs that generate")
    _check_batches(flags, nodes * gpus)
    found: Dict[str, Any] = {"train.colocate_all": True, "vllm.num_engines": cards // size}
    for model in ("actor", "ref", "critic", "reward"):
        found[f"{model}.num_nodes"], found[f"{model}.num_gpus_per_node"] = nodes, gpus
    if pools.separate:
        return {**found, "train.async_enable": True}
    if flags.get("train.partial_rollout_enable"):
        raise AdapterError(
            "train.partial_rollout_enable needs two pools: --profile train=<card>:<n> --profile rollout=<card>:<n>"
        )
    return {**found, "vllm.enable_sleep": True, "ds.enable_sleep": True}


def _check_batches(flags: Mapping[str, Any], gpus: int) -> None:
    """OpenRLHF's own check, which only the machines could make: each GPU that trains gets a batch of rollouts."""

    def count(flag: str, default: int) -> int:
        return int(flags.get(flag) or default)

    answers = count("rollout.batch_size", 1024) * count("rollout.n_samples_per_prompt", 1)
    processes = gpus // count("ds.ring_attn_size", 1) // count("ds.tensor_parallel_size", 1)
    if answers // count("rollout.micro_batch_size", 1) < processes:
        raise AdapterError(
            f"rollout.batch_size × rollout.n_samples_per_prompt ÷ rollout.micro_batch_size must be at least {processes}, one batch for each GPU"
        )


def _resume_flags(capsule: Mapping[str, Any], preparation: Preparation) -> Dict[str, Any]:
    """OpenRLHF goes on from what lies in its own checkpoint folder: the checkpoint is put there, with DeepSpeed's pointer to it."""
    source: Optional[str] = capsule["paths"].get("resume_from")
    if not source:
        return {}
    folder, name = posixpath.split(source.rstrip("/"))
    target = f"{capsule['paths']['out_dir']}/{CHECKPOINTS}"
    root, part = posixpath.split(folder)
    parts = _PARTS if part in _PARTS else ("",)
    for part in parts:
        here = posixpath.join(root, part) if part else folder
        there = posixpath.join(target, part) if part else target
        if part != "_critic" or _has_critic(capsule):
            preparation.copy(f"{here}/{name}", f"{there}/{name}")
            preparation.write(name, f"{there}/{_LATEST}")
    return {"ckpt.load_enable": True}


def _has_critic(capsule: Mapping[str, Any]) -> bool:
    fixed = capsule["recipe"]["adapter_options"].get("fixed") or {}
    return bool(fixed.get("algo.advantage.estimator", "gae") == "gae")


def _data(capsule: Mapping[str, Any], experiment: str) -> Tuple[str, Optional[str]]:
    """Training and validation data: the job's, else the sample in the experiment's `data/`. A run with data of its own and no validation
    data is not validated."""
    paths = capsule["paths"]
    train, validation = paths.get("train_data"), paths.get("validation_data")
    if not train:
        train = f"{experiment}/data/train.jsonl"
        validation = validation or f"{experiment}/data/validation.jsonl"
    for path in (train, validation):
        if path and set(path) & {",", "@"}:
            raise AdapterError(f"OpenRLHF takes a comma or an @ in the path of a dataset for something else: {path}")
    return train, validation


def _split(capsule: Mapping[str, Any], part: str) -> str:
    """`datasets` calls everything `train` that has no name of its own."""
    reference = (capsule["jobspec"]["spec"].get("data") or {}).get(part) or {}
    return str(reference.get("split") or "train")


def _flat(values: Mapping[str, Any], at: str = "") -> Iterator[Tuple[str, Any]]:
    for name, item in values.items():
        if isinstance(item, dict):
            yield from _flat(item, f"{at}{name}.")
        else:
            yield f"{at}{name}", item
