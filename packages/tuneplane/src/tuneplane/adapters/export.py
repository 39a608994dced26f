"""An export: the capsule's `action` instead of a training. `export_start.py` is the program; what only a framework can read, its own converter
reads first, into a directory beside the target.

Sources: verl 0.9.1 `verl/model_merger/base_model_merger.py`; ms-swift 4.6 `swift/arguments/export_args.py`, `merge_args.py`; DeepSpeed 0.19
`deepspeed/utils/zero_to_fp32.py`; NeMo RL 0.7.0 `examples/converters/convert_dcp_to_hf.py`.
"""

from __future__ import annotations

import posixpath
from pkgutil import get_data
from typing import Any, Callable, Dict, List, Mapping, Optional

from tuneplane.adapters import ms_swift, nemo_rl
from tuneplane.adapters.command import AdapterError, Command, Machine
from tuneplane.adapters.experiment import pool_cpus

EXPORTS = "exports"  # below the out dir
RECORD = "tuneplane-export.json"  # in a finished export: where it comes from
START_DIR = "export"  # below the work dir, and the program's directory: nothing of the lab is in its way
HF, ADAPTER, VERL, DEEPSPEED, NEMO_RL = "hf", "hf-adapter", "verl-fsdp", "deepspeed", "nemo-rl-dcp"
_START = "export_start.py"
_BESIDE = "tuneplane/adapters"  # what it imports lies beside it, in a package of the same name
_IMPORTED = ("export_files.py", "export_weights.py")


def compile_export(capsule: Mapping[str, Any], machine: Machine) -> Command:
    """The command of the one machine of an export. Raises `AdapterError` for a checkpoint that its framework does not write."""
    action = capsule["action"]
    if action.get("kind") != "export":
        raise AdapterError("no adapter for the action {!r}".format(action.get("kind")))
    if machine.count > 1:
        raise AdapterError(f"an export runs on one machine, not on {machine.count}")
    target = posixpath.join(capsule["paths"]["out_dir"], EXPORTS, action["name"])
    argv = [machine.python, f"{machine.work_dir}/{START_DIR}/{_START}", *_options(capsule, action, target)]
    files = _start_files()
    converter = _converter(capsule, machine, action, part_of(target))
    if converter:
        argv += ["--", *converter]
        if action["layout"] == NEMO_RL:
            files[nemo_rl.SCRIPT_FILE] = nemo_rl.SCRIPT
    return Command(argv=tuple(argv), cwd_relative=START_DIR, env=_environment(capsule, machine), files=files)


def part_of(target: str) -> str:
    """Where the export is made: a directory beside the target, which takes its name when it is whole."""
    folder, name = posixpath.split(target)
    return posixpath.join(folder, f".{name}.part")


def _options(capsule: Mapping[str, Any], action: Mapping[str, Any], target: str) -> List[str]:
    options = ["--source", _weights(action), "--layout", str(action["layout"]), "--target", target]
    base = capsule["paths"].get("base_model") or capsule["paths"].get("init_model")
    if base:
        options += ["--base", str(base)]
    if action.get("merge_lora"):
        options.append("--merge-lora")
    if action.get("dtype"):
        options += ["--dtype", str(action["dtype"])]
    options += ["--run", str(action["run"])]
    if action.get("step") is not None:
        options += ["--step", str(action["step"])]
    return options


def _weights(action: Mapping[str, Any]) -> str:
    return posixpath.join(action["source"], action.get("weights") or "").rstrip("/")


def _converter(
    capsule: Mapping[str, Any], machine: Machine, action: Mapping[str, Any], part: str
) -> Optional[List[str]]:
    """The framework's own program that writes `part`, None when ours needs no other."""
    kind, layout = capsule["jobspec"]["spec"]["framework"]["kind"], action["layout"]
    if layout in (HF, ADAPTER) and kind in _HUGGING_FACE:
        merged = kind == "ms-swift" and layout == ADAPTER and action.get("merge_lora")
        return _swift(capsule, machine, action, part) if merged else None
    make = _CONVERTERS.get((kind, layout))
    if make is None:
        raise AdapterError(f"{kind} has no way to export a checkpoint of layout {layout!r}")
    return make(capsule, machine, action, part)


def _verl(capsule: Mapping[str, Any], machine: Machine, action: Mapping[str, Any], part: str) -> List[str]:
    places = ["--local_dir", _weights(action), "--target_dir", part]
    return [machine.python, "-m", "verl.model_merger", "merge", "--backend", "fsdp", *places]


def _swift(capsule: Mapping[str, Any], machine: Machine, action: Mapping[str, Any], part: str) -> List[str]:
    """Its own merge knows the models of several modalities. The checkpoint's `args.json` says the rest."""
    flags: Dict[str, Any] = {"adapters": [_weights(action)], "merge_lora": True, "output_dir": part}
    base = capsule["paths"].get("base_model")
    if base:
        flags.update(ms_swift.one_model(base, (capsule["jobspec"]["spec"].get("model") or {}).get("base")))
    if action.get("dtype"):
        flags["torch_dtype"] = action["dtype"]
    return [machine.python, "-m", "swift.cli.export", *ms_swift.flag_arguments(flags)]


def _deepspeed(capsule: Mapping[str, Any], machine: Machine, action: Mapping[str, Any], part: str) -> List[str]:
    folder, tag = posixpath.split(_weights(action))
    # Not --safe_serialization: it fails on weights that are shared, as those of small models are. They are rewritten afterwards.
    return [machine.python, "-m", "deepspeed.utils.zero_to_fp32", folder, part, "--tag", tag]


def _nemo_rl(capsule: Mapping[str, Any], machine: Machine, action: Mapping[str, Any], part: str) -> List[str]:
    script = ["sh", f"{machine.work_dir}/{nemo_rl.SCRIPT_FILE}", machine.python, nemo_rl.DCP_CONVERTER]
    source = ["--config", f"{action['source']}/config.yaml", "--dcp-ckpt-path", _weights(action)]
    return [*script, *source, "--hf-ckpt-path", part]


_HUGGING_FACE = ("trl", "ms-swift", "openrlhf", "nemo-rl")
_CONVERTERS: Dict[Any, Callable[[Mapping[str, Any], Machine, Mapping[str, Any], str], List[str]]] = {
    ("verl", VERL): _verl,
    ("openrlhf", DEEPSPEED): _deepspeed,
    ("nemo-rl", NEMO_RL): _nemo_rl,
}


def _start_files() -> Dict[str, str]:
    def source(name: str) -> str:
        return (get_data("tuneplane.adapters", name) or b"").decode("utf-8")

    found = {f"{START_DIR}/{_BESIDE}/{name}": source(name) for name in _IMPORTED}
    packages = (f"{START_DIR}/tuneplane/__init__.py", f"{START_DIR}/{_BESIDE}/__init__.py")
    return {f"{START_DIR}/{_START}": source(_START), **dict.fromkeys(packages, ""), **found}


def _environment(capsule: Mapping[str, Any], machine: Machine) -> Dict[str, str]:
    env = {"PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false"}
    if machine.gpus_per_node == 0:
        env["CUDA_VISIBLE_DEVICES"] = ""  # a job that asked for no card gets none, also beside real ones
        cpus = pool_cpus(capsule)
        if cpus:
            env["OMP_NUM_THREADS"] = str(cpus)
    return env
