"""What the adapter renders is what verl composes: every method and shape of job goes through Hydra and verl's own checks, in verl's environment."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.catalog.capsule import OUT, capsule, machines, methods_of, shapes_of, template_config
from tests.services.session import ROOT
from tuneplane import adapters
from tuneplane.adapters import Machine, verl_start
from tuneplane.adapters.verl import CHECKPOINTS
from tuneplane.recipes import index
from tuneplane.recipes.validate import check_config, owning

pytestmark = [pytest.mark.catalog, pytest.mark.timeout(580)]
HERE = Path(__file__).parent
SCHEMA = index.CATALOG / "verl/schema-0.9.json"
RECORDER = ROOT / "scripts/schemas/record_verl.py"
METHODS = methods_of("verl")
RL = [method for method in METHODS if method != "verl/sft"]
TREES = {"verl.trainer.main_ppo": "ppo_trainer", "verl.trainer.sft_trainer": "sft_trainer_engine"}
ODD = [
    " a b ", "'c' \"d\"", "$HOME $(id) `id` $x", "e=f==g", "h\ni\r\n\tj", "训练 é 🚀 \u2028 \x7f", "C:\\new\\", "\\'", "'\\\\", "",
    "null", "true", "1e-5", "[1,2]", "{a:1}", "#k", "l,m", "~", "++n=o", "a: b", "@p",
]  # fmt: skip


@pytest.fixture(scope="module")
def start() -> ModuleType:
    """What runs in front of verl in the job."""
    return verl_start


def flat(tree: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{at}{key}.")
        else:
            yield f"{at}{key}", value


def own(config: Mapping[str, Any]) -> dict[str, Any]:
    """The framework's part of a template's configuration, path by path."""
    return {path: value for path, value in flat(config) if value is not None or path.startswith("trainer.")}


def case(
    name: str, start: ModuleType, given: dict[str, Any], wanted: dict[str, Any], shape: str, check: bool = True
) -> dict[str, Any]:
    """The trainer's own arguments, out of what starts it on machine 0."""
    machine = Machine(
        count=machines(shape),
        gpus_per_node=int(shape[0]) if shape == "1 GPU" else 8,
        main_ip="10.0.0.5",
        work_dir="/tmp/w",
    )
    argv = list(adapters.compile(given, machine).argv)
    at = next(number for number, item in enumerate(argv) if item.endswith("/verl_start.py"))
    argv = start.completed(argv[at + 1 :])
    module = next(number for number, item in enumerate(argv) if item in TREES)
    return {"name": name, "tree": TREES[argv[module]], "argv": argv[module + 1 :], "wanted": wanted, "check": check}


def placed(method: str, shape: str, resume: str | None) -> dict[str, Any]:
    """What the platform sets for a job of this shape."""
    nodes, gpus = {"1 GPU": (1, 1), "1x8": (1, 8), "2x8": (2, 8), "two pools": (2, 8)}[shape]
    values: dict[str, Any] = {
        "trainer.nnodes": nodes,
        "trainer.n_gpus_per_node": gpus // 2 if method == "verl/distillation" else gpus,
        "trainer.logger": ["console", "file"],
        "trainer.project_name": "lab",
        "trainer.experiment_name": "first",
        "trainer.default_local_dir": f"{OUT}/{CHECKPOINTS}",
        "trainer.resume_mode": "resume_path" if resume else "disable",
        "trainer.resume_from_path": resume,
    }
    if method == "verl/sft":
        return {**values, "model.path": "/models/base"}
    values |= {"actor_rollout_ref.model.path": "/models/base", "critic.model.path": "/models/base"}
    values |= index.entry(method)["manifest"]["adapter_options"]["fixed"]
    if method == "verl/distillation":
        values |= {"distillation.nnodes": nodes, "distillation.n_gpus_per_node": gpus // 2}
    if shape == "two pools":
        values |= {
            "trainer.v1.trainer_mode": "separate_async",
            "trainer.v1.separate_async.parameter_sync_step": 2,
            "actor_rollout_ref.rollout.nnodes": 1,
            "actor_rollout_ref.rollout.n_gpus_per_node": 8,
            "actor_rollout_ref.rollout.checkpoint_engine.backend": "nccl",
        }
    return values


def matrix(start: ModuleType, data: Path) -> Iterator[dict[str, Any]]:
    for method in METHODS:
        config = template_config(method)
        key = "data.train_files", "data.val_files"
        for shape in shapes_of(method):
            if method == "verl/distillation" and shape == "1 GPU":
                continue  # refused: see test_adapters
            for resume in (None, f"{OUT}/../../1/out/checkpoints/global_step_40"):
                given = capsule(
                    method,
                    config,
                    shape,
                    train_data=str(data),
                    validation_data=str(data / "b.parquet"),
                    resume_from=resume,
                )
                wanted = own(config) | placed(method, shape, resume)
                wanted |= {
                    key[0]: [str(data / "a 'q'.parquet"), str(data / "b.parquet")],
                    key[1]: [str(data / "b.parquet")],
                }
                yield case(f"{method} {shape} {'resumed' if resume else 'new'}", start, given, wanted, shape)


def teacher_pool(start: ModuleType, data: Path) -> dict[str, Any]:
    config = template_config("verl/distillation")
    given = capsule("verl/distillation", config, "two pools", train_data=str(data))
    given["jobspec"]["spec"]["resources"]["roles"] = {"train": "trainers", "teacher": "engines"}
    wanted = {
        "trainer.nnodes": 2,
        "trainer.n_gpus_per_node": 8,
        "distillation.nnodes": 1,
        "distillation.n_gpus_per_node": 8,
    }
    wanted |= {"trainer.val_before_train": False, "trainer.test_freq": -1}  # no validation data
    return case("verl/distillation teacher pool", start, given, wanted, "two pools")


def other_value(spec: Mapping[str, Any], number: int) -> Any:
    """A value that is not the default and that the schema takes."""
    kind = next((kind for kind in spec["type"] if kind != "any"), "str")
    if "choices" in spec and kind == "str":
        return next(choice for choice in spec["choices"] if choice != spec.get("default"))
    if kind == "bool":
        return not spec.get("default")
    if kind == "str":
        return ODD[number % len(ODD)]
    if kind == "dict":
        return {"plain_key": [ODD[number % len(ODD)], 1, 2.5, None, {"in-ner": True}], "odd. key/:": "x"}
    if kind.startswith("list"):
        inner = kind[5:-1] if kind != "list" else "str"
        return {"int": [3, 0, -1], "float": [0.5, 1e-07], "str": [ODD[number % len(ODD)], "b"]}[inner]
    low = spec.get("min", spec.get("exclusive_min", 0))
    value = low + 3 if kind == "int" else 0.25 if spec.get("max") == 1 else low + 1.25e-07
    return value + 1 if value == spec.get("default") else value


def every_key(start: ModuleType) -> Iterator[dict[str, Any]]:
    """Every key that a user may set, each with another value than its default; all in one configuration, which need not make sense."""
    for method in ("verl/ppo", "verl/sft"):
        entry = index.entry(method)
        owned = entry["manifest"]["adapter_options"]["owned"]
        keys = {path: spec for path, spec in (index.config_keys(entry) or {}).items() if not owning(path, owned)}
        holders = [path for path in keys if any(other.startswith(f"{path}.") for other in keys)]
        skipped = {
            "trainer.v1.trainer_mode",
            "trainer.rollout_data_dir",
            "trainer.validation_data_dir",
            "global_profiler.save_path",
            "trainer.test_freq",
        }
        values = {
            path: other_value(spec, number)
            for number, (path, spec) in enumerate(sorted(keys.items()))
            if path not in holders and path not in skipped and path != "distillation.enabled"
        }
        given = capsule(method, values, "1x8", train_data="/d/t.parquet", validation_data="/d/v.parquet")
        assert check_config(entry, values, {}) == []
        yield case(f"{method}: {len(values)} keys", start, given, values, "1x8", check=False)


@pytest.fixture(scope="module")
def cases(start: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    data = tmp_path_factory.mktemp("data set")
    for name in ("b.parquet", "a 'q'.parquet", "README.md"):
        (data / name).write_bytes(b"PAR1")
    with pytest.MonkeyPatch.context() as patch:
        found = [*matrix(start, data), teacher_pool(start, data)]
        patch.setattr(start, "data_files", lambda path, split="": [path])  # those of `every_key` are names alone
        return [*found, *every_key(start)]


def test_verl_composes_what_was_asked_for(
    framework_env: Callable[[str], Path], cases: list[dict[str, Any]], tmp_path: Path
) -> None:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps(cases), encoding="utf-8")
    python = framework_env("verl") / "bin/python"
    done = subprocess.run(
        [python, HERE / "compose_cases.py", path], capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == []
    print(f"verl: {len(cases)} command lines composed, {sum(len(one['wanted']) for one in cases)} values compared")


def test_the_schema_is_current_every_bound_is_proved_and_a_difference_is_seen(
    framework_env: Callable[[str], Path], tmp_path: Path
) -> None:
    text = SCHEMA.read_text(encoding="utf-8")
    changed = tmp_path / "schema.json"
    assert '"low_var_kl",' in text
    changed.write_text(text.replace('"low_var_kl",', '"low_variance_kl",', 1), encoding="utf-8")
    python = framework_env("verl") / "bin/python"
    done = subprocess.run(
        [python, RECORDER, SCHEMA, changed, "--check"], capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 1, done.stderr[-3000:]
    assert re.findall(r"^(.+) is not what the installed verl says", done.stderr, re.MULTILINE) == [str(changed)]


def test_verl_has_no_platform_for_a_cpu(framework_env: Callable[[str], Path]) -> None:
    """Why a CPU profile is refused: without an accelerator verl takes NVIDIA's platform, whose processes meet over NCCL."""
    python = framework_env("verl") / "bin/python"
    code = (
        "from verl.plugin.platform import get_platform\nfrom verl.plugin.platform.platform_manager import PlatformRegistry\n"
        "print(sorted(PlatformRegistry.registered_names()), get_platform().device_name, get_platform().communication_backend_name())"
    )
    environment = {"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [python, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert "cpu" not in done.stdout
    assert done.stdout.strip().endswith("cuda nccl")


def test_the_samples_of_the_templates_are_rows_that_verl_reads(
    framework_env: Callable[[str], Path], tmp_path: Path
) -> None:
    """JSON lines of the SFT sample, rewritten by the job's own start as Parquet, are the same rows."""
    command = adapters.compile(capsule("verl/sft", {}), Machine(gpus_per_node=8))
    for name, text in command.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    sample = index.CATALOG / "verl/sft/template/data/train.jsonl"
    python = framework_env("verl") / "bin/python"
    show = "import sys, json, pyarrow.parquet as p; print(sys.argv[1]); print(json.dumps(p.read_table(sys.argv[1].split(chr(39))[1]).to_pylist()))"
    steps = ["parquet", "data.train_files", str(sample), "", "--", str(python), "-c", show]
    done = subprocess.run(
        [python, tmp_path / "verl/verl_start.py", *steps], capture_output=True, text=True, timeout=120, check=True
    )
    said, rows = done.stdout.splitlines()
    assert said == f"++data.train_files=['{tmp_path}/verl/data.train_files-0.parquet']"
    assert json.loads(rows) == [json.loads(line) for line in sample.read_text(encoding="utf-8").splitlines()]
