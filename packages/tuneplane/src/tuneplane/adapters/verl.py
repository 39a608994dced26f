"""verl 0.9: reinforcement learning by `python -m verl.trainer.main_ppo` on Ray, supervised by `verl.trainer.sft_trainer` under torchrun.

Both read a Hydra tree; every value of the experiment and of the platform is one override. Sources, of 0.9.1: `trainer/main_ppo.py`,
`trainer/ppo/v1/{trainer_base,trainer_separate_async}.py`, `trainer/sft_trainer.py`, `trainer/config/*.yaml`, `workers/config/distillation.py`,
`utils/{tracking,config}.py`, `utils/checkpoint/checkpoint_handler.py`.
"""

from __future__ import annotations

import posixpath
from pkgutil import get_data
from typing import Any, Dict, List, Mapping, Optional, Tuple

from tuneplane.adapters.command import AdapterError, Command, LogHint, Machine
from tuneplane.adapters.experiment import effective_config, experiment_dir, named_model, set_at
from tuneplane.adapters.hydra_overrides import NotForHydraError, overrides
from tuneplane.adapters.pools import ROLLOUT, TRAIN, Pools, pools_of
from tuneplane.adapters.ray import ray_command
from tuneplane.adapters.torchrun import torchrun_argv, torchrun_env, torchrun_hints

CHECKPOINTS, METRICS, HYDRA = "checkpoints", "metrics.jsonl", "hydra"  # below the out dir
START_DIR = "verl"  # below the work dir
TEACHER = "teacher"
_START = "verl_start.py"
_BESIDE = "tuneplane/adapters"  # what it imports lies beside it, in a package of the same name
# Folders that the user may name; what is relative lies below the out dir, the only one that outlives the job.
_KEPT_FOLDERS = ("trainer.rollout_data_dir", "trainer.validation_data_dir", "global_profiler.save_path")


def compile_command(capsule: Mapping[str, Any], machine: Machine) -> Command:
    config = _flat_free(effective_config(capsule))
    ray = capsule["recipe"]["adapter_options"].get("launcher") == "ray"
    owned = _rl_values(capsule, config, pools_of(capsule)) if ray else _sft_values(capsule, config, machine)
    owned.update(_trainer_values(capsule))
    _keep_folders(config, capsule["paths"]["out_dir"])
    for path in owned:
        _take(config, path)  # said once, by the platform
    arguments = [*_overrides(config), *_overrides(owned, literal=True), *_hydra(capsule["paths"]["out_dir"])]
    return _on_ray(capsule, machine, arguments) if ray else _under_torchrun(capsule, machine, arguments)


def _on_ray(capsule: Mapping[str, Any], machine: Machine, arguments: List[str]) -> Command:
    entrypoint = capsule["recipe"]["entrypoint"]
    own = entrypoint.get("experiment_override")
    steps = [*_data_steps(capsule, "files"), *(("own", own) if own else ())]
    program = [machine.python, "-m", str(entrypoint["value"]), *arguments]
    return ray_command(
        capsule,
        machine,
        _started(machine, steps, program),
        files=_start_files(),
        env={**_environment(capsule), "TOKENIZERS_PARALLELISM": "true"},
        log_hints=(LogHint("jsonl", METRICS),),
    )


def _under_torchrun(capsule: Mapping[str, Any], machine: Machine, arguments: List[str]) -> Command:
    program = [str(capsule["recipe"]["entrypoint"]["value"]), *arguments]
    launcher = torchrun_argv(machine, program, out_dir=capsule["paths"]["out_dir"], module=True)
    return Command(
        argv=tuple(_started(machine, _data_steps(capsule, "parquet"), launcher)),
        cwd_relative=experiment_dir(capsule),
        env={**torchrun_env(capsule, machine), **_environment(capsule)},
        files=_start_files(),
        log_hints=(LogHint("jsonl", METRICS), *torchrun_hints(machine)),
    )


def _started(machine: Machine, steps: List[str], program: List[str]) -> List[str]:
    return [machine.python, f"{machine.work_dir}/{START_DIR}/{_START}", *steps, "--", *program]


def _start_files() -> Dict[str, str]:
    def source(name: str) -> str:
        return (get_data("tuneplane.adapters", name) or b"").decode("utf-8")

    return {
        f"{START_DIR}/{_START}": source(_START),
        f"{START_DIR}/tuneplane/__init__.py": "",
        f"{START_DIR}/{_BESIDE}/__init__.py": "",
        f"{START_DIR}/{_BESIDE}/hydra_overrides.py": source("hydra_overrides.py"),
    }


def _environment(capsule: Mapping[str, Any]) -> Dict[str, str]:
    """On every machine: verl logs in a process that Ray starts where it likes."""
    return {
        "VERL_FILE_LOGGER_PATH": capsule["paths"]["out_dir"] + "/" + METRICS,
        "HYDRA_FULL_ERROR": "1",  # else Hydra shortens the trace that says what went wrong
    }


def _overrides(values: Mapping[str, Any], literal: bool = False) -> List[str]:
    try:
        return overrides(values, literal)
    except NotForHydraError as error:
        raise AdapterError(f"Hydra has no way to say the key {str(error)!r}") from None


def _hydra(out: str) -> List[str]:
    """Hydra writes the composed configuration and its own log; relative to the working directory they would be lost."""
    return [text[2:] for text in overrides({"hydra": {"run": {"dir": f"{out}/{HYDRA}"}}}, literal=True)]


def _trainer_values(capsule: Mapping[str, Any]) -> Dict[str, Any]:
    metadata, paths = capsule["jobspec"]["metadata"], capsule["paths"]
    resume: Optional[str] = paths.get("resume_from")
    return {
        "trainer.logger": ["console", "file"],
        "trainer.project_name": str(metadata.get("project") or "tuneplane"),
        "trainer.experiment_name": str(metadata["name"]),
        "trainer.default_local_dir": f"{paths['out_dir']}/{CHECKPOINTS}",
        "trainer.default_hdfs_dir": None,
        "trainer.resume_mode": "resume_path" if resume else "disable",
        "trainer.resume_from_path": resume.rstrip("/") if resume else None,
    }


def _rl_values(capsule: Mapping[str, Any], config: Mapping[str, Any], pools: Pools) -> Dict[str, Any]:
    nodes, gpus = pools.shape(TRAIN)
    if gpus == 0:
        raise AdapterError("verl trains on GPUs here: give tp submit --profile <card>:<number>")
    model = named_model(capsule, "verl")
    values: Dict[str, Any] = {
        "actor_rollout_ref.model.path": model,
        "critic.model.path": _at(config, "critic.model.path") or model,
        # The checkpoint may be another attempt's, or another run's.
        "trainer.del_local_ckpt_after_load": False,
        "trainer.nnodes": nodes,
        "trainer.n_gpus_per_node": gpus,
    }
    if _at(config, "distillation.enabled"):
        values.update(_teacher_values(capsule, config, nodes, gpus))
    values.update(_rollout_values(config, pools))
    if not capsule["paths"].get("validation_data") and capsule["paths"].get("train_data"):
        # verl makes a validation set in any case and needs a row in it.
        values.update({"trainer.val_before_train": False, "trainer.test_freq": -1})
    return values


def _rollout_values(config: Mapping[str, Any], pools: Pools) -> Dict[str, Any]:
    """One pool: the cards generate and train in turns. Two: those of `rollout` generate all the time (verl's `separate_async`)."""
    mode = _at(config, "trainer.v1.trainer_mode")
    if not pools.separate:
        if mode == "separate_async":
            raise AdapterError(
                "trainer.v1.trainer_mode separate_async needs two pools: --profile train=<card>:<n> --profile rollout=<card>:<n>"
            )
        return {}
    nodes, gpus = pools.shape(ROLLOUT)
    if gpus == 0:
        raise AdapterError("the pool that generates has no GPUs")
    batch = int(_at(config, "data.train_batch_size") or 1024)
    part = int(_at(config, "actor_rollout_ref.actor.ppo_mini_batch_size") or 256)
    steps = int(_at(config, "trainer.v1.separate_async.parameter_sync_step") or batch // part)
    if steps * part != batch:
        raise AdapterError(
            "with two pools data.train_batch_size must be trainer.v1.separate_async.parameter_sync_step times "
            f"actor_rollout_ref.actor.ppo_mini_batch_size, not {batch} = {steps} × {part}"
        )
    backend = _at(config, "actor_rollout_ref.rollout.checkpoint_engine.backend")
    return {
        "trainer.v1.trainer_mode": "separate_async",
        "trainer.v1.separate_async.parameter_sync_step": steps,
        "actor_rollout_ref.rollout.nnodes": nodes,
        "actor_rollout_ref.rollout.n_gpus_per_node": gpus,
        "actor_rollout_ref.rollout.checkpoint_engine.backend": "nccl" if backend in (None, "naive") else backend,
    }


def _teacher_values(capsule: Mapping[str, Any], config: Mapping[str, Any], nodes: int, gpus: int) -> Dict[str, Any]:
    """The teacher has cards of its own: those of its pool, else a part of every machine's, half of them unless asked otherwise."""
    roles = capsule["jobspec"]["spec"]["resources"].get("roles") or {}
    if roles.get(TEACHER) not in (None, roles.get(TRAIN)):
        its_nodes, its_gpus = pools_of(capsule).shape(TEACHER)
        return {"distillation.nnodes": its_nodes, "distillation.n_gpus_per_node": its_gpus}
    part = int(_at(config, "distillation.n_gpus_per_node") or gpus // 2)
    if not 0 < part < gpus:
        raise AdapterError(
            f"student and teacher need cards of their own: {part} of {gpus} GPUs of a machine for the teacher leaves none for one of "
            "them; give two or more, or a pool each: --profile train=<card>:<n> --profile teacher=<card>:<n>"
        )
    return {
        "distillation.nnodes": nodes,
        "distillation.n_gpus_per_node": part,
        "trainer.n_gpus_per_node": gpus - part,
    }


def _sft_values(capsule: Mapping[str, Any], config: Mapping[str, Any], machine: Machine) -> Dict[str, Any]:
    nodes, gpus = pools_of(capsule).shape(TRAIN)
    if gpus == 0:
        raise AdapterError("verl 0.9's engines run on accelerators only: give tp submit --profile <card>:<number>")
    values: Dict[str, Any] = {
        "model.path": named_model(capsule, "verl"),
        "trainer.nnodes": nodes,
        "trainer.n_gpus_per_node": gpus,
    }
    if not _data(capsule)[1]:
        values.update({"data.val_files": None, "trainer.test_freq": -1})
    return values


def _data(capsule: Mapping[str, Any]) -> Tuple[str, Optional[str]]:
    """Training and validation data: the job's, else the sample in the experiment's `data/`, which is the working directory on every machine."""
    paths = capsule["paths"]
    train, validation = paths.get("train_data"), paths.get("validation_data")
    if not train:
        return "data/train.jsonl", validation or "data/validation.jsonl"
    return str(train), validation


def _data_steps(capsule: Mapping[str, Any], kind: str) -> List[str]:
    """What `verl_start.py` is to name. Reinforcement learning has to have validation rows, asked for or not."""
    references = capsule["jobspec"]["spec"].get("data") or {}
    train, validation = _data(capsule)
    if validation is None and kind == "files":
        validation, references = train, {**references, "validation": references.get("train")}
    steps: List[str] = []
    for part, key, path in (("train", "data.train_files", train), ("validation", "data.val_files", validation)):
        if path is not None:
            steps += [kind, key, path, str((references.get(part) or {}).get("split") or "")]
    return steps


def _flat_free(config: Mapping[str, Any]) -> Dict[str, Any]:
    """Dotted keys of the first level as branches of the tree."""
    tree: Dict[str, Any] = {}
    for key, value in config.items():
        if "." in key:
            set_at(tree, key, value)
        elif isinstance(value, dict) and isinstance(tree.get(key), dict):
            tree[key] = {**value, **tree[key]}
        else:
            tree[key] = value
    return tree


def _keep_folders(config: Dict[str, Any], out: str) -> None:
    for path in _KEPT_FOLDERS:
        value = _at(config, path)
        if isinstance(value, str) and value and not value.startswith("/"):
            set_at(config, path, posixpath.join(out, value))


def _at(config: Mapping[str, Any], path: str) -> Any:
    value: Any = config
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def _take(config: Dict[str, Any], path: str) -> None:
    """Remove the value at a path, if there is one."""
    parent, _, last = path.rpartition(".")
    holder = _at(config, parent)
    if isinstance(holder, dict):
        holder.pop(last, None)
