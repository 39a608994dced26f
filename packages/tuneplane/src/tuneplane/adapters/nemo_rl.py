"""NeMo RL 0.7: `examples/run_*.py` of its image on Ray, with a configuration file that inherits the script's own example.

The file is JSON, which OmegaConf reads as YAML, and carries `defaults: <NeMo RL>/examples/configs/….yaml`, then the experiment's tree, then what
the platform sets. Nothing goes through a shell or through Hydra's override grammar. In the experiment's tree `${…}` is OmegaConf's own
interpolation; in the platform's values (paths, model) it is taken literally. Sources: `examples/run_grpo.py`, `examples/configs/*.yaml`,
`nemo_rl/utils/{config,checkpoint,logger}.py`, `nemo_rl/data/utils.py`, `nemo_rl/algorithms/{grpo,distillation,ppo}.py` of 0.7.0.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any, Dict, Mapping

from tuneplane.adapters import json_for_yaml
from tuneplane.adapters.command import AdapterError, Command, LogHint, Machine
from tuneplane.adapters.experiment import effective_config, experiment_dir, named_model, set_at
from tuneplane.adapters.pools import ROLLOUT, TRAIN, Pools, pools_of
from tuneplane.adapters.prepare import Preparation
from tuneplane.adapters.ray import ray_command

CONFIG_FILE, SCRIPT_FILE = "config.json", "nemo_rl.sh"  # below the work dir
CHECKPOINTS, LOGS = "checkpoints", "logs"  # below the out dir
DCP_CONVERTER = "examples/converters/convert_dcp_to_hf.py"  # below NeMo RL's folder
ROOT = "NEMO_RL_DIR"  # environment variable: where NeMo RL lies; its image has it in /opt/nemo-rl

# section that names the algorithm -> the example that its script reads when it is given none
BASES = {
    "grpo": "grpo_math_1B.yaml",
    "ppo": "ppo_math_1B.yaml",
    "sft": "sft.yaml",
    "dpo": "dpo.yaml",
    "rm": "rm.yaml",
    "distillation": "distillation_math.yaml",
}
_PREFERENCES = ("dpo", "rm")
_GENERATES = ("grpo", "ppo", "distillation")

SCRIPT = """\
#!/bin/sh
# nemo_rl.sh PYTHON SCRIPT ARGUMENT...: the experiment's own run.py where there is one, else NeMo RL's script.
set -eu
: "${NEMO_RL_DIR:=/opt/nemo-rl}"
export NEMO_RL_DIR PYTHONPATH="$NEMO_RL_DIR${PYTHONPATH:+:$PYTHONPATH}"
python=$1 script=$2
shift 2
[ -d "$NEMO_RL_DIR/examples/configs" ] || {
  echo "NeMo RL is not in $NEMO_RL_DIR: run the job in its image, or set NEMO_RL_DIR with tp submit --env" >&2
  exit 1
}
if [ -f run.py ]; then exec "$python" run.py "$@"; fi
exec "$python" "$NEMO_RL_DIR/$script" "$@"
"""


def compile_command(capsule: Mapping[str, Any], machine: Machine) -> Command:
    pools, preparation = pools_of(capsule), Preparation(machine)
    if pools.gpus(TRAIN) == 0:
        raise AdapterError("NeMo RL trains on GPUs: give tp submit --profile <card>:<number>")
    algorithm = algorithm_of(capsule)
    config = effective_config(capsule)
    _set_model(config, capsule)
    _set_places(config, capsule["paths"]["out_dir"])
    _set_cluster(config, algorithm, pools)
    _set_data(config, capsule, algorithm, f"{machine.work_dir}/{experiment_dir(capsule)}")
    _resume(capsule, preparation)
    base = "${oc.env:" + ROOT + "}/examples/configs/" + BASES[algorithm]
    driver, files = preparation.wrap(
        [
            "sh",
            f"{machine.work_dir}/{SCRIPT_FILE}",
            machine.python,
            str(capsule["recipe"]["entrypoint"]["value"]),
            "--config",
            f"{machine.work_dir}/{CONFIG_FILE}",
        ]
    )
    files.update({CONFIG_FILE: json_for_yaml.dumps({"defaults": base, **config}), SCRIPT_FILE: SCRIPT})
    return ray_command(
        capsule,
        machine,
        driver,
        files=files,
        env={"PYTHONUNBUFFERED": "1", ROOT: "/opt/nemo-rl", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"},
        log_hints=(LogHint("tensorboard", LOGS),),
        head_always=True,  # its init_ray looks for a cluster that runs
    )


def algorithm_of(capsule: Mapping[str, Any]) -> str:
    """The section of the configuration that the recipe's parameters name: which example the method builds on."""
    sections = {str(path).split(".", 1)[0] for path in (capsule["recipe"].get("param_paths") or {}).values()}
    found = [name for name in BASES if name in sections]
    if len(found) != 1:
        raise AdapterError(f"the recipe's parameters name {len(found)} of the sections {', '.join(BASES)}, not one")
    return found[0]


def literal(text: str) -> str:
    """The text as OmegaConf gives it back unchanged: `${` begins an interpolation unless a backslash stands before it."""
    return re.sub(r"(\\*)\$\{", lambda match: match.group(1) * 2 + "\\${", text)


def _set_model(config: Dict[str, Any], capsule: Mapping[str, Any]) -> None:
    model = named_model(capsule, "NeMo RL")
    set_at(config, "policy.model_name", literal(model))
    set_at(config, "policy.tokenizer.name", literal(model))


def _set_places(config: Dict[str, Any], out: str) -> None:
    set_at(config, "checkpointing.checkpoint_dir", literal(f"{out}/{CHECKPOINTS}"))
    logger = {"log_dir": literal(f"{out}/{LOGS}"), "tensorboard_enabled": True}
    for name in ("wandb", "swanlab", "mlflow"):
        logger[f"{name}_enabled"] = False
    for name, value in logger.items():
        set_at(config, f"logger.{name}", value)


def _set_cluster(config: Dict[str, Any], algorithm: str, pools: Pools) -> None:
    """NeMo RL counts all machines and takes those that generate off; machines of one cluster have as many cards each."""
    nodes, gpus = pools.shape(TRAIN)
    if algorithm in _GENERATES:
        generation = "policy.generation.colocated"
        set_at(config, f"{generation}.enabled", not pools.separate)
        if pools.separate:
            other_nodes, other_gpus = pools.shape(ROLLOUT)
            if other_gpus != gpus:
                raise AdapterError(
                    f"machines that train have {gpus} GPUs and those that generate {other_gpus}; NeMo RL needs equal ones"
                )
            set_at(config, f"{generation}.resources", {"num_nodes": other_nodes, "gpus_per_node": other_gpus})
            nodes += other_nodes
    set_at(config, "cluster.num_nodes", nodes)
    set_at(config, "cluster.gpus_per_node", gpus)


def _set_data(config: Dict[str, Any], capsule: Mapping[str, Any], algorithm: str, experiment: str) -> None:
    """The job's data, else a data set that NeMo RL knows by name, else the sample in the experiment's `data/`.

    The examples' prompt files lie in NeMo RL's folder; a path here is relative to the experiment, so there is none unless it is named.
    """
    data = config.setdefault("data", {})
    data["default"] = {"prompt_file": None, "system_prompt_file": None, **(data.get("default") or {})}
    paths, preference = capsule["paths"], algorithm in _PREFERENCES
    train, validation = paths.get("train_data"), paths.get("validation_data")
    own = data.get("train")
    if not train and (isinstance(own, list) or (isinstance(own, dict) and own.get("dataset_name"))):
        return
    if not train:
        train = f"{experiment}/data/train.jsonl"
        validation = validation or f"{experiment}/data/validation.jsonl"
    data["train"] = _data_set(own, train, _split(capsule, "train"), preference)
    if validation:
        data["validation"] = _data_set(data.get("validation"), validation, _split(capsule, "validation"), preference)
        data["train"].setdefault("split_validation_size", 0)
        return
    data["validation"] = None
    if preference:
        for key, value in (("val_period", 0), ("val_at_start", False), ("val_at_end", False)):
            set_at(config, f"{algorithm}.{key}", value)
    else:
        data["train"].setdefault("split_validation_size", 0.05)  # what the GRPO example keeps back


def _data_set(own: Any, path: str, split: Any, preference: bool) -> Dict[str, Any]:
    kept = dict(own) if isinstance(own, dict) else {}
    kept.setdefault("dataset_name", "BinaryPreferenceDataset" if preference else "ResponseDataset")
    if split is None and posixpath.splitext(path)[1]:
        split = "train"  # what `datasets` calls the rows of a file
    return {**kept, "data_path": literal(path), "split": split}


def _split(capsule: Mapping[str, Any], part: str) -> Any:
    return ((capsule["jobspec"]["spec"].get("data") or {}).get(part) or {}).get("split")


def _resume(capsule: Mapping[str, Any], preparation: Preparation) -> None:
    """NeMo RL goes on from the newest checkpoint in its own folder: the one asked for is put there."""
    source = capsule["paths"].get("resume_from")
    if source:
        name = posixpath.basename(source.rstrip("/"))
        preparation.copy(source.rstrip("/"), f"{capsule['paths']['out_dir']}/{CHECKPOINTS}/{name}")
