"""`TunePlaneCallback` for transformers' Trainer and every TRL trainer built on it.

    trainer = SFTTrainer(..., callbacks=[TunePlaneCallback()])

Metrics keep the names the trainer gives them (`loss`, `grad_norm`, `rewards/chosen`, …); the run's recipe maps them to canonical
names. The class is built on first use, so that importing this module needs neither transformers nor torch.
"""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any, Callable, Dict, List, Optional

from tuneplane.report.session import finish, flush, log, log_event, log_samples
from tuneplane.report.values import to_json_value, to_number, without_secrets
from tuneplane.report.writer import say

_PACKAGES = (
    "torch",
    "transformers",
    "trl",
    "accelerate",
    "peft",
    "datasets",
    "deepspeed",
    "vllm",
    "numpy",
    "safetensors",
)
_SAMPLES_PER_LOG = 8


def __getattr__(name: str) -> Any:
    if name == "TunePlaneCallback":
        globals()[name] = _build()
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _build() -> type:
    from transformers import TrainerCallback

    class TunePlaneCallback(TrainerCallback):
        """Reports metrics, hyperparameters, environment, checkpoints and, for GRPO and RLOO, completions.

        `watch(trainer)` names the trainer whose completions are shown: transformers does not hand it to callbacks.
        """

        def __init__(self) -> None:
            self._trainer: Any = None
            self._samples_at = -1

        def watch(self, trainer: Any) -> None:
            """Show the completions that this trainer keeps (TRL's GRPO and RLOO trainers do)."""
            self._trainer = trainer

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.is_world_process_zero:
                _report("hyperparams", lambda: _hyperparams(args, kwargs.get("model")))
                _report("environment", lambda: _environment(args))

        def on_log(
            self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None, **kwargs: Any
        ) -> None:
            metrics = dict(logs or {})
            epoch = metrics.pop("epoch", state.epoch)
            metrics.pop("step", None)
            # TRL logs None for a reward that no sample of the batch had: no point, and no warning either.
            log({name: value for name, value in metrics.items() if value is not None}, state.global_step, epoch=epoch)
            if state.is_world_process_zero and state.global_step != self._samples_at:
                self._samples_at = state.global_step
                self._show_completions(state.global_step)

        def _show_completions(self, step: int) -> None:
            try:
                samples = _completions(self._trainer)
            except Exception as error:  # noqa: BLE001 - another version of TRL may keep them differently
                say(f"completions could not be read from the trainer: {type(error).__name__}: {error}")
                self._trainer = None
                return
            if samples:
                log_samples(samples, step, kind="completion")

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.is_world_process_zero:
                path = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
                log_event("checkpoint", {"path": os.path.abspath(path), "step": state.global_step})
            # Who goes on from this checkpoint must find the points before it, even if this process is killed now.
            flush()

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            finish()

    return TunePlaneCallback


def _report(event: str, facts: Callable[[], Dict[str, Any]]) -> None:
    """Report what `facts` finds out; what it cannot find out must not end the training."""
    try:
        log_event(event, facts())
    except Exception as error:  # noqa: BLE001 - foreign objects may raise anything
        say(f"{event} could not be reported: {type(error).__name__}: {error}")


def _hyperparams(args: Any, model: Any) -> Any:
    values = args.to_dict() if hasattr(args, "to_dict") else vars(args)
    values = {key: value for key, value in values.items() if not str(key).startswith("_")}
    count = getattr(model, "num_parameters", None)
    if callable(count):
        values["model_parameters"] = count()
        values["model_trainable_parameters"] = count(only_trainable=True)
    return without_secrets(to_json_value(values))


def _environment(args: Any) -> Dict[str, Any]:
    facts: Dict[str, Any] = {"python": platform.python_version(), "platform": platform.platform()}
    versions: Dict[str, str] = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    facts["packages"] = versions
    facts["world_size"] = getattr(args, "world_size", 1)
    facts["device"] = str(getattr(args, "device", "unknown"))
    torch = sys.modules.get("torch")
    if torch is not None:
        facts["cuda"] = getattr(torch.version, "cuda", None)
        facts["devices"] = _devices(torch)
    return facts


def _devices(torch: Any) -> List[str]:
    """Names of the GPUs; nothing is initialised that the trainer has not initialised itself."""
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return []
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def _completions(trainer: Any) -> List[Dict[str, Any]]:
    """The newest completions of a TRL GRPO or RLOO trainer, from the columns it keeps for its own tables (`_logs`)."""
    columns = getattr(trainer, "_logs", None)
    if not isinstance(columns, dict) or not columns.get("prompt") or not columns.get("completion"):
        return []
    prompts, completions = list(columns["prompt"]), list(columns["completion"])
    rewards = {str(name): list(values) for name, values in dict(columns.get("rewards") or {}).items()}
    weights = _weights(trainer, list(rewards))
    end = min(len(prompts), len(completions))
    samples: List[Dict[str, Any]] = []
    for index in range(max(0, end - _SAMPLES_PER_LOG), end):
        parts = {name: to_number(values[index]) for name, values in rewards.items() if index < len(values)}
        # A reward function may answer None (NaN here) for a sample that it does not judge.
        known = {name: value for name, value in parts.items() if value is not None and value - value == 0}
        total = sum(value * weights[name] for name, value in known.items()) if known else None
        text = {"prompt": _as_text(prompts[index]), "completion": _as_text(completions[index])}
        samples.append({**text, "reward": total, "rewards": parts})
    return samples


def _weights(trainer: Any, names: List[str]) -> Dict[str, float]:
    given = getattr(trainer, "reward_weights", None)
    numbers = given.tolist() if hasattr(given, "tolist") else []
    return dict(zip(names, numbers)) if len(numbers) == len(names) else dict.fromkeys(names, 1.0)  # noqa: B905 - strict= needs 3.10


def _as_text(value: Any) -> str:
    """A conversation as one line per message; a single message as it is."""
    if not isinstance(value, list):
        return str(value)
    messages = [item if isinstance(item, dict) else {"content": item} for item in value]
    if len(messages) == 1:
        return str(messages[0].get("content", ""))
    return "\n".join(f"{message.get('role', '')}: {message.get('content', '')}" for message in messages)
