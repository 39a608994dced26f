"""The keys that mean the same in every framework's config (surface §1): taken out of `config.yaml`, checked, shaped as in the JobSpec.

`data.train`, `data.validation` {dataset | path, split}, `data.{volumes, output_dataset, environment, taskset, quality}` and
`eval` {suites, gates, on_checkpoint}. Everything else below `data` and `eval` stays with the framework, which has its own keys there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuneplane.contract.names import parse_owned_ref
from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _

DATA_KEYS = ("volumes", "output_dataset", "environment", "taskset", "quality")
SPLITS = ("train", "validation")
EVAL_KEYS = ("suites", "gates", "on_checkpoint")
GATE_BOUNDS = ("min", "max", "max_regression")


@dataclass(frozen=True)
class SharedKeys:
    """`data` is `spec.data` of the JobSpec, `evaluation` is `spec.evaluation`; both empty when the config says nothing."""

    data: dict[str, Any] = field(default_factory=dict)
    evaluation: dict[str, Any] = field(default_factory=dict)


def split_shared(
    values: Mapping[str, Any], positions: Mapping[str, tuple[str, int]]
) -> tuple[dict[str, Any], SharedKeys, list[Refusal]]:
    """(the framework's own config, the shared keys, what is wrong with them). `values` is not changed."""
    native, check = dict(values), _Check(positions)
    data: dict[str, Any] = {}
    if isinstance(native.get("data"), dict):
        own = dict(native["data"])
        for split in SPLITS:
            _take_split(own, split, data, check)
        for key in DATA_KEYS:
            if key in own:
                data[key] = own.pop(key)
        check.data(data)
        check.misspelt(own)
        native["data"] = own
        if not own:
            del native["data"]
    evaluation = _take_evaluation(native, check)
    return native, SharedKeys(data, evaluation), check.refusals


def _take_evaluation(native: dict[str, Any], check: _Check) -> dict[str, Any]:
    """Move our keys below `eval` out of the config; a framework's own keys there stay."""
    found = native.pop("eval", None)
    if found is not None and not isinstance(found, dict):
        check.refuse("eval", _("eval must hold keys and values"), check.known(EVAL_KEYS))
    if not isinstance(found, dict):
        return {}
    taken = {key: found[key] for key in EVAL_KEYS if key in found}
    rest = {key: value for key, value in found.items() if key not in EVAL_KEYS}
    check.evaluation(taken)
    for key in rest:
        check.nearly(f"eval.{key}", key, EVAL_KEYS)
    if rest:
        native["eval"] = rest
    return taken


def _take_split(own: dict[str, Any], split: str, data: dict[str, Any], check: _Check) -> None:
    """Move `data.<split>` into `data` when it names a dataset or a path; a framework's own mapping of that name stays."""
    found = own.get(split)
    if not isinstance(found, dict) or not ("dataset" in found or "path" in found):
        return
    rest = dict(found)
    taken = {key: rest.pop(key) for key in ("dataset", "path", "split") if key in rest}
    dataset = taken.get("dataset")
    if isinstance(dataset, str) and dataset.startswith("/") and "path" not in taken:
        taken["path"] = taken.pop("dataset")
    data[split] = taken
    check.split(split, taken)
    if rest:
        own[split] = rest
    else:
        del own[split]


class _Check:
    """Collects refusals with the file and line of the key they are about."""

    def __init__(self, positions: Mapping[str, tuple[str, int]]) -> None:
        self.positions = positions
        self.refusals: list[Refusal] = []

    def split(self, split: str, taken: Mapping[str, Any]) -> None:
        at = f"data.{split}"
        if "dataset" in taken and "path" in taken:
            self.refuse(f"{at}.dataset", _("give a dataset or a path, not both"))
        dataset, path, part = taken.get("dataset"), taken.get("path"), taken.get("split")
        if "dataset" in taken:
            ref = parse_owned_ref(dataset) if isinstance(dataset, str) else None
            if ref is None or ref.version is None:
                self.refuse(
                    f"{at}.dataset",
                    _("“{value}” is no dataset").format(value=dataset),
                    _("write <owner>/<name>@<version>, or an absolute path that the machine of the job can see"),
                )
        if "path" in taken and not _is_absolute(path):
            key = f"{at}.path" if f"{at}.path" in self.positions else f"{at}.dataset"
            self.refuse(key, _("“{value}” is no absolute path without “..”").format(value=path))
        if "split" in taken and not (isinstance(part, str) and 0 < len(part) <= 64):
            self.refuse(f"{at}.split", _("the split must be a name"))

    def misspelt(self, rest: Mapping[str, Any]) -> None:
        """What is left below `data` is the framework's, unless it is nearly one of ours."""
        for key, value in rest.items():
            self.nearly(f"data.{key}", key, (*SPLITS, *DATA_KEYS))
            if key in SPLITS and isinstance(value, dict):
                for inner in value:
                    self.nearly(f"data.{key}.{inner}", inner, ("dataset", "path"))

    def nearly(self, at: str, key: str, known: tuple[str, ...]) -> None:
        from difflib import get_close_matches

        close = get_close_matches(key, known, n=1, cutoff=0.8)
        if close and key not in known:
            message = _("there is no key “{key}” here").format(key=key)
            self.refuse(at, message, _("did you mean “{name}”?").format(name=close[0]), code="param-unknown")

    def data(self, data: Mapping[str, Any]) -> None:
        volumes = data.get("volumes", [])
        if not isinstance(volumes, list):
            self.refuse("data.volumes", _("volumes must be a list of <owner>/<name>"))
            volumes = []
        for index, item in enumerate(volumes):
            ref = parse_owned_ref(item) if isinstance(item, str) else None
            if ref is None or ref.version is not None:
                self.refuse(
                    f"data.volumes[{index}]",
                    _("“{value}” is no volume").format(value=item),
                    _("write <owner>/<name>"),
                )
        for key in ("output_dataset", "environment", "taskset"):
            if key in data and not isinstance(data[key], str):
                self.refuse(f"data.{key}", _("{key} must be a name").format(key=f"data.{key}"))
        if "quality" in data and not isinstance(data["quality"], dict):
            self.refuse("data.quality", _("data.quality must hold keys and values"))

    def evaluation(self, value: Mapping[str, Any]) -> None:
        suites = value.get("suites", [])
        if not isinstance(suites, list) or not all(isinstance(item, str) and item for item in suites):
            self.refuse("eval.suites", _("eval.suites must be a list of names"))
        gates = value.get("gates", [])
        if not isinstance(gates, list):
            self.refuse("eval.gates", _("eval.gates must be a list"))
            gates = []
        for index, gate in enumerate(gates):
            self.gate(f"eval.gates[{index}]", gate)
        on_checkpoint = value.get("on_checkpoint", {})
        if not isinstance(on_checkpoint, dict):
            self.refuse("eval.on_checkpoint", _("eval.on_checkpoint must hold keys and values"))
        elif "every_steps" in on_checkpoint and not _is_count(on_checkpoint["every_steps"]):
            self.refuse("eval.on_checkpoint.every_steps", _("every_steps must be a whole number of at least 1"))

    def gate(self, at: str, gate: Any) -> None:
        if not isinstance(gate, dict):
            self.refuse(at, _("a gate must hold keys and values"), self.known(("metric", *GATE_BOUNDS)))
            return
        for key in gate:
            if key not in ("metric", *GATE_BOUNDS):
                self.unknown(f"{at}.{key}", key, ("metric", *GATE_BOUNDS))
        if not isinstance(gate.get("metric"), str) or not gate["metric"]:
            self.refuse(at, _("a gate needs the name of a metric"), _("for example metric: validation/accuracy"))
        bounds = [key for key in GATE_BOUNDS if key in gate]
        if not bounds:
            self.refuse(at, _("a gate needs a bound"), self.known(GATE_BOUNDS))
        for key in bounds:
            if isinstance(gate[key], bool) or not isinstance(gate[key], int | float):
                self.refuse(f"{at}.{key}", _("{key} must be a number").format(key=key))
        low, high = gate.get("min"), gate.get("max")
        if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
            self.refuse(f"{at}.min", _("min is above max: the gate could never pass"))

    def unknown(self, at: str, key: str, known: tuple[str, ...]) -> None:
        from difflib import get_close_matches

        close = get_close_matches(key, known, n=1)
        hint = _("did you mean “{name}”?").format(name=close[0]) if close else self.known(known)
        self.refuse(at, _("there is no key “{key}” here").format(key=key), hint, code="param-unknown")

    def refuse(self, at: str, message: str, hint: str = "", code: str = "config-invalid") -> None:
        file, line = self.positions.get(at, ("", 0))
        self.refusals.append(Refusal(code, message, hint, field=at, file=file, line=line))

    @staticmethod
    def known(keys: tuple[str, ...]) -> str:
        return _("known keys: {keys}").format(keys=", ".join(keys))


def _is_absolute(path: Any) -> bool:
    return isinstance(path, str) and path.startswith("/") and "\0" not in path and "/../" not in f"{path}/"


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
