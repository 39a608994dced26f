"""The variants of a sweep: each one once, always the same, inside of what was asked for."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tuneplane.contract.sweep import SweepSpec
from tuneplane.recipes.index import entry, methods
from tuneplane.sweeps.check import check_sweep, objective_of, trials_of, typed
from tuneplane.sweeps.space import Axis, draw, size, space_of, split, variant

LISTS = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(LISTS)
def test_a_grid_has_each_combination_once(lengths: list[int]) -> None:
    space = tuple(Axis(f"p{place}", tuple(range(count))) for place, count in enumerate(lengths))
    count = size(space)
    assert count is not None
    found = [variant(space, index) for index in range(count)]
    assert len({tuple(item.values()) for item in found}) == count
    assert all(list(item) == [axis.name for axis in space] for item in found)


@given(st.integers(0, 2**31 - 1), st.integers(0, 50))
def test_a_drawn_variant_lies_inside_and_is_the_same_again(seed: int, number: int) -> None:
    space = (
        Axis("lr", None, 1e-6, 1e-3, log=True),
        Axis("steps", None, 3, 9, integer=True),
        Axis("rank", None, 1, 1000, log=True, integer=True),
        Axis("decay", None, -1.0, 0.123456789),
        Axis("kind", ("a", "b")),
    )
    found = draw(space, seed, number, 51)
    assert found == draw(space, seed, number, 51)
    for axis in space[:4]:
        assert axis.low <= found[axis.name] <= axis.high
        assert isinstance(found[axis.name], int) or not axis.integer
    assert found["kind"] in ("a", "b")


def test_of_lists_no_variant_comes_twice_and_seeds_differ() -> None:
    space = (Axis("a", (1, 2, 3)), Axis("b", (True, False)))
    found = [draw(space, 5, number, 6) for number in range(6)]
    assert len({tuple(item.values()) for item in found}) == 6
    ranged = (Axis("a", None, 0.0, 1.0),)
    assert draw(ranged, 1, 0, 9) != draw(ranged, 2, 0, 9)
    assert draw(ranged, 1, 0, 9) != draw(ranged, 1, 1, 9)


def test_environment_variables_are_texts() -> None:
    plain, env = split({"lr": 1e-5, "env.A": True, "env.B": 1e-5, "env.C": "x y", "env.D": None})
    assert (plain, env) == ({"lr": 1e-5}, {"A": "true", "B": "1e-05", "C": "x y", "D": "null"})


def sweep(**given: Any) -> dict[str, Any]:
    return SweepSpec.model_validate({"method": "grid", "params": {}, **given}).completed()


def test_ranges_of_whole_numbers_are_drawn_as_such() -> None:
    asked = sweep(method="random", params={"max_steps": {"min": 1, "max": 9}, "learning_rate": {"min": 1, "max": 2}})
    found = typed(entry("trl/sft"), asked)
    assert [axis.integer for axis in space_of(found["params"])] == [True, False]
    assert trials_of(found) == 20


def test_the_objective_is_the_recipes_unless_another_is_named() -> None:
    asked = sweep(params={"max_steps": {"values": [1]}})
    metrics = entry("trl/sft")["manifest"]["metrics"]
    assert objective_of(entry("trl/sft"), asked) == {"metric": metrics["primary"], "goal": metrics["objective"]}
    assert objective_of(entry("custom/custom"), asked) is None
    named = {"metric": "train/loss", "goal": "max"}
    assert objective_of(entry("trl/sft"), {**asked, "objective": named}) == named


def test_every_method_can_be_swept_by_its_environment_and_its_numbers() -> None:
    numbers = 0
    for method in methods():
        found = entry(method)
        varied: dict[str, Any] = {"env.LR": {"values": ["1e-5", 2, 0.5]}}
        for name, param in found["manifest"]["params"].items():
            default = param.get("default")
            if param["type"] in ("int", "float") and isinstance(default, int | float) and len(varied) < 32:
                varied[name] = {"values": [default]}
                numbers += 1
        assert check_sweep(found, sweep(params=varied)) == [], method
    assert numbers > len(methods())


def test_what_a_method_without_parameters_can_vary_is_said() -> None:
    [refusal] = check_sweep(entry("custom/custom"), sweep(params={"lr": {"values": [1, 2, 3]}}))
    assert (refusal.code, refusal.field) == ("param-unknown", "sweep.params.lr")
    assert "env." in refusal.hint


def test_each_thing_that_is_wrong_is_said_once() -> None:
    found = check_sweep(
        entry("trl/sft"),
        sweep(
            method="asha",
            params={
                "learning_rate": {"min": -1.0, "max": 1.0},
                "learning_rat": {"values": [1, 2, 3]},
                "env.9": {"values": [{}]},
                "warmup_steps": {"values": [1, 1.0, 1]},
            },
            trials=5000,
        ),
    )
    assert [refusal.code for refusal in found].count("param-unknown") == 1
    assert {refusal.code for refusal in found} == {"param-range", "param-unknown", "sweep-invalid", "sweep-too-large"}
    assert all(refusal.field.startswith("sweep.") for refusal in found)


def test_a_parameter_of_another_kind_cannot_be_a_range() -> None:
    found = check_sweep(
        entry("trl/sft"), sweep(method="random", params={"lr_scheduler_type": {"min": 1, "max": 2}}, trials=2)
    )
    assert "param-type" in {refusal.code for refusal in found} or "param-choice" in {refusal.code for refusal in found}
