"""Configuration against recipe: what passes, what is refused, and how well each refusal speaks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tuneplane.recipes.conftest import ToyCatalog
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.recipes import index
from tuneplane.recipes.validate import check_config, check_hyperparams, parse_set_values

SFT = index.entry("trl/sft")


def one(config: dict[str, Any], method: str = "trl/sft") -> Refusal:
    (refusal,) = check_config(index.entry(method), config, {})
    return refusal


@pytest.mark.parametrize(
    ("method", "config"),
    [
        ("trl/sft", {}),
        ("trl/sft", {"learning_rate": 1, "warmup_steps": 0.1, "logging_steps": 5}),  # a whole number is a number
        ("trl/sft", {"max_length": None, "pad_to_multiple_of": "auto"}),
        ("trl/sft", {"pad_to_multiple_of": 8, "use_peft": True, "lora_target_modules": ["q_proj", "v_proj"]}),
        ("trl/sft", {"model_init_kwargs": {"attn": {"deep": [1, None, "x"]}}, "deepspeed": "zero3.json"}),
        ("trl/sft", {"eval_strategy": "no", "optim": "adafactor", "lr_scheduler_type": "cosine"}),
        ("trl/dpo", {"loss_type": ["sigmoid", "sft"], "loss_weights": [1, 0.5], "label_smoothing": 0.49}),
        ("trl/grpo", {"scale_rewards": False, "loss_type": "dr_grpo", "reward_weights": [1.0, 0.5]}),
        ("trl/rloo", {"reward_clip_range": [-1.0, 1]}),
        ("custom/custom", {"anything": {"goes": [1, "two"]}, "output_dir": "/x"}),
    ],
)
def test_what_the_framework_takes_passes(method: str, config: dict[str, Any]) -> None:
    assert check_config(index.entry(method), config, {}) == []


@pytest.mark.parametrize(
    ("config", "code", "message", "hint"),
    [
        ({"learning_rate": "2e-5"}, "param-type", "must be a number, not the text “2e-5”", "write 2e-5 without"),
        ({"max_steps": "8"}, "param-type", "must be a whole number, not the text “8”", "write 8 without"),
        ({"max_steps": 8.0}, "param-type", "must be a whole number, not 8.0", "write 8"),
        ({"max_steps": 8.5}, "param-type", "must be a whole number, not 8.5", ""),
        ({"max_steps": True}, "param-type", "must be a whole number, not true", ""),
        ({"max_steps": None}, "param-type", "must be a whole number, not null", ""),
        ({"learning_rate": False}, "param-type", "must be a number, not false", ""),
        ({"packing": "yes"}, "param-type", "must be true or false, not the text “yes”", ""),
        ({"packing": 1}, "param-type", "must be true or false, not 1", ""),
        ({"bf16": "auto"}, "param-type", "must be true or false or null", ""),
        ({"dataset_text_field": ["a"]}, "param-type", "must be text, not a list", ""),
        ({"lora_target_modules": "all-linear"}, "param-type", "a list of texts or null", "[all-linear]"),
        ({"lora_target_modules": ["a", 1]}, "param-type", "lora_target_modules[1] must be text, not 1", ""),
        ({"eval_strategy": False}, "param-type", "one of no, steps, epoch", "“no”"),
        ({"max_length": 0}, "param-range", "must be at least 1, not 0", ""),
        ({"adam_beta1": 1.0}, "param-range", "must be less than 1, not 1.0", ""),
        ({"lora_dropout": 1.5}, "param-range", "must be at most 1, not 1.5", ""),
        ({"num_train_epochs": 0}, "param-range", "must be more than 0, not 0", ""),
        ({"lr_scheduler_type": "cosin"}, "param-choice", "not “cosin”", "did you mean “cosine”?"),
        ({"optim": "Adafactor"}, "param-choice", "not “Adafactor”", "did you mean “adafactor”?"),
        ({"learning_rte": 1}, "param-unknown", "trl/sft has no key “learning_rte”", "did you mean “learning_rate”?"),
        ({"Learning_Rate": 1}, "param-unknown", "no key “Learning_Rate”", "did you mean “learning_rate”?"),
        ({"zzzz": 1}, "param-unknown", "no key “zzzz”", "tp methods trl/sft"),
        ({"beta": 0.1}, "param-unknown", "trl/sft has no key “beta”", ""),
        ({"model_name_or_path": "x"}, "key-platform-owned", "belongs to the platform", "use tp submit --model"),
        ({"output_dir": "x"}, "key-platform-owned", "belongs to the platform", "the platform sets it"),
        ({"report_to": "wandb"}, "key-platform-owned", "belongs to the platform", ""),
        ({"dataset_name": "x"}, "key-platform-owned", "belongs to the platform", "use data.train.dataset"),
        ({"learning_rate": float("nan")}, "number-not-finite", "learning_rate is nan", ""),
        ({"model_init_kwargs": {"a": [float("inf")]}}, "number-not-finite", "model_init_kwargs.a[0] is inf", ""),
    ],
)
def test_what_it_does_not_take_is_refused(config: dict[str, Any], code: str, message: str, hint: str) -> None:
    refusal = one(config)
    assert refusal.code == code
    assert message in refusal.message
    assert hint in refusal.hint


@pytest.mark.parametrize(
    ("method", "config", "message"),
    [
        ("trl/dpo", {"loss_type": ["sigmoid", "sigmod"]}, "loss_type[1] must be one of"),
        ("trl/dpo", {"label_smoothing": 0.5}, "must be less than 0.5"),
        ("trl/grpo", {"num_generations": 1}, "must be at least 2"),
        ("trl/grpo", {"temperature": 0.0}, "must be more than 0"),
        ("trl/grpo", {"scale_rewards": "none-at-all"}, "must be one of group, batch, none"),
        ("trl/kto", {"train_sampling_strategy": "batch_rebalance"}, "must be one of random, sequential"),
    ],
)
def test_each_method_has_keys_of_its_own(method: str, config: dict[str, Any], message: str) -> None:
    assert message in one(config, method).message


def test_everything_wrong_is_said_at_once_with_file_and_line() -> None:
    config = {"learning_rte": 1, "max_steps": "x", "output_dir": "y", "lora_target_modules": ["a", 2], "seed": -1}
    positions = {
        "learning_rte": ("config.yaml", 3),
        "max_steps": ("config.yaml", 4),
        "output_dir": ("../base.yaml", 7),
        "lora_target_modules": ("config.yaml", 9),
        "lora_target_modules[1]": ("config.yaml", 11),
    }
    refusals = check_config(SFT, config, positions, {"nothing": "1"})
    assert [(refusal.code, refusal.where()) for refusal in refusals] == [
        ("param-unknown", "config.yaml:3"),
        ("param-type", "config.yaml:4"),
        ("key-platform-owned", "../base.yaml:7"),
        ("param-type", "config.yaml:11"),
        ("param-range", "seed"),
        ("param-unknown", "hyperparams.nothing"),
    ]


def test_a_place_inside_a_value_falls_back_to_what_holds_it() -> None:
    positions = {"model_init_kwargs": ("config.yaml", 5)}
    (refusal,) = check_config(SFT, {"model_init_kwargs": {"a": [float("inf")]}}, positions)
    assert refusal.where() == "config.yaml:5"
    assert refusal.field == "model_init_kwargs.a[0]"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("learning_rate", "1e-5", 1e-5),
        ("learning_rate", "3", 3.0),
        ("max_steps", "-1", -1),
        ("max_length", "null", None),
        ("packing", "true", True),
        ("bf16", "false", False),
        ("optim", "adafactor", "adafactor"),
        ("dataset_text_field", "a = 'b' $c", "a = 'b' $c"),
        ("dataset_text_field", "", ""),
        ("dataset_text_field", "8", "8"),
        ("dataset_text_field", "null", "null"),
    ],
)
def test_set_values_take_the_type_of_their_parameter(name: str, text: str, value: Any) -> None:
    values, refusals = parse_set_values(SFT, {name: text})
    assert refusals == []
    assert values == {name: value}
    assert type(values[name]) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "code", "said"),
    [
        ("max_steps", "8.0", "param-type", "must be a whole number, not “8.0”"),
        ("max_steps", "٤", "param-type", "must be a whole number"),
        ("max_steps", "1_000", "param-type", "must be a whole number"),
        ("max_steps", "", "param-type", "must be a whole number"),
        ("max_steps", "-2", "param-range", "must be at least -1"),
        ("learning_rate", "fast", "param-type", "must be a number, not “fast”"),
        ("learning_rate", "nan", "number-not-finite", "finite"),
        ("learning_rate", "-inf", "number-not-finite", "finite"),
        ("learning_rate", "1e999", "number-not-finite", "finite"),
        ("packing", "True", "param-type", "must be true or false"),
        ("packing", "null", "param-type", "must be true or false"),
        ("optim", "adam", "param-choice", "must be one of"),
        ("learning_rte", "1", "param-unknown", "did you mean “learning_rate”?"),
        ("use_cache", "true", "param-unknown", "put use_cache into config.yaml"),
        ("zzzz", "1", "param-unknown", "parameters: max_steps"),
    ],
)
def test_bad_set_values_are_refused(name: str, text: str, code: str, said: str) -> None:
    values, (refusal,) = parse_set_values(SFT, {name: text})
    assert values == {}
    assert refusal.code == code
    assert said in f"{refusal.message} {refusal.hint}"
    assert refusal.field == f"hyperparams.{name}"


def test_a_method_without_parameters_takes_no_set_values() -> None:
    _, (refusal,) = parse_set_values(index.entry("custom/custom"), {"x": "1"})
    assert "has no parameter" in refusal.message
    assert "no parameters" in refusal.hint


def test_the_server_checks_the_typed_values_of_a_jobspec() -> None:
    assert check_hyperparams(SFT, {"max_steps": 8, "learning_rate": 1, "eval_steps": None}) == []
    refusals = check_hyperparams(SFT, {"max_steps": True, "seed": -1, "x": 1})
    assert [(refusal.code, refusal.field) for refusal in refusals] == [
        ("param-type", "max_steps"),
        ("param-range", "seed"),
        ("param-unknown", "x"),
    ]


def test_a_required_parameter_may_come_from_either_side() -> None:
    entry = {**SFT, "manifest": {**SFT["manifest"], "params": {**SFT["manifest"]["params"]}}}
    entry["manifest"]["params"]["seed"] = {**SFT["manifest"]["params"]["seed"], "required": True}
    assert check_config(entry, {"seed": 1}, {}) == []
    assert check_config(entry, {}, {}, {"seed": "1"}) == []
    (refusal,) = check_config(entry, {}, {"max_steps": ("config.yaml", 2)})
    assert (refusal.code, refusal.file, refusal.field) == ("param-required", "config.yaml", "seed")


def test_no_input_at_all_breaks_the_checks() -> None:
    """Anything JSON can hold gets sentences, never an exception."""
    odd: list[Any] = [None, True, 0, -1, 1.5, "", "x" * 10_000, [], [[]], [None], {}, {"a": {"b": None}}, ["a", 1, {}]]
    for method in index.methods():
        entry = index.entry(method)
        keys = list(index.config_keys(entry) or {"x": 1})
        for value in odd:
            for refusal in check_config(entry, dict.fromkeys(keys, value), {}):
                assert refusal.message
                assert len(refusal.message) < 1000


NESTED = {
    "actor": {"type": ["dict"], "default": {}},
    "actor.optim.lr": {"type": ["float"], "min": 0, "default": 1e-6},
    "actor.optim.name": {"type": ["str"], "choices": ["adamw", "sgd"], "default": "adamw"},
    "trainer.total_epochs": {"type": ["int"], "default": 1},
    "trainer.nnodes": {"type": ["int"], "default": 1},
    "extra": {"type": ["dict"], "default": {}},
}


@pytest.fixture
def nested(toy: ToyCatalog) -> index.Entry:
    """A recipe whose framework has a tree of keys, of which the platform owns one leaf and one whole branch."""
    toy.keys = dict(NESTED)
    toy.manifest["params"] = {"lr": {"path": "actor.optim.lr", "doc": "Rate.", "group": "g"}}
    toy.manifest["i18n"]["zh-Hans"]["params"] = {"lr": "速率。"}
    toy.manifest["adapter_options"] = {
        "config_mode": "hydra",
        "owned": {"trainer.nnodes": "tp submit --profile", "data": "data.train.dataset"},
        "fixed": {"data.path": "x"},
    }
    return toy.compile()


def refused(toy: ToyCatalog, entry: index.Entry, config: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
    found = check_config(entry, config, more.pop("positions", {}), catalog=toy.root, **more)
    return [(item.code, item.field) for item in found]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"actor": {"optim": {"lr": 0.1, "name": "sgd"}}, "extra": {"any": {"thing": 1}}}, []),
        ({"actor": {"whatever": 1, "optim": {"lr": 0.1}}}, []),  # this section takes other names too
        ({"actor": {"optim": {"lr": -1}}}, [("param-range", "actor.optim.lr")]),
        ({"actor": {"optim": {"lr": "0.1"}}}, [("param-type", "actor.optim.lr")]),
        ({"actor": {"optim": {"name": "adam"}}}, [("param-choice", "actor.optim.name")]),
        ({"actor": {"optim": {"rate": 1}}}, [("param-unknown", "actor.optim.rate")]),
        ({"actor": {"optim": 3}}, [("param-type", "actor.optim")]),
        ({"trainer": [1]}, [("param-type", "trainer")]),
        ({"trainer": None}, []),
        ({"trainer": {"nnodes": 2}}, [("key-platform-owned", "trainer.nnodes")]),
        ({"data": {"path": "y"}}, [("key-platform-owned", "data")]),
        ({"data": 1}, [("key-platform-owned", "data")]),
        ({"trainer.total_epochs": 3}, []),  # a dotted key is the same path
        ({"trainer": {"total_epoch": 3}, "dat": 1}, [("param-unknown", "trainer.total_epoch"), ("param-unknown", "dat")]),
        ({"extra": {"x": float("nan")}}, [("number-not-finite", "extra.x")]),
    ],
)  # fmt: skip
def test_a_tree_of_keys_is_checked_to_its_leaves(
    toy: ToyCatalog, nested: index.Entry, config: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert refused(toy, nested, config) == expected


def test_a_nested_refusal_names_its_line_and_the_nearest_path(toy: ToyCatalog, nested: index.Entry) -> None:
    positions = {"trainer": ("config.yaml", 4), "trainer.total_epoch": ("config.yaml", 5)}
    (found,) = check_config(nested, {"trainer": {"total_epoch": 3}}, positions, catalog=toy.root)
    assert (found.file, found.line) == ("config.yaml", 5)
    assert "trainer.total_epochs" in found.hint


def test_a_parameter_deep_in_the_tree_is_set_by_its_name(toy: ToyCatalog, nested: index.Entry) -> None:
    assert refused(toy, nested, {}, set_values={"lr": "0.5"}) == []
    assert refused(toy, nested, {}, set_values={"lr": "-1"}) == [("param-range", "hyperparams.lr")]


def test_a_changed_schema_on_the_disk_is_refused(toy: ToyCatalog, nested: index.Entry) -> None:
    index.load_schema.cache_clear()
    path = toy.root / index.schema_file("toy", "2")
    path.write_bytes(path.read_bytes().replace(b"adamw", b"adamx"))
    with pytest.raises(RefusedError) as caught:
        check_config(nested, {}, {}, catalog=toy.root)
    assert caught.value.refusals[0].code == "catalog-mismatch"
