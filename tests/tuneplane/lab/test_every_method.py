"""A lab with an experiment of every method validates clean, and generated broken configs each get the refusal they should, where they should."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.tuneplane.lab.broken_configs import Broken, generate
from tuneplane.lab.check import check_experiment
from tuneplane.lab.create import create_lab
from tuneplane.lab.experiments import Experiment, find_experiment, list_experiments
from tuneplane.lab.find import Lab, find_lab
from tuneplane.recipes import index
from tuneplane.recipes.new import write_experiment

COUNT = 200
SEED = 20260131


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    root = tmp_path_factory.mktemp("every") / "lab"
    create_lab(root)
    for method in index.methods():
        write_experiment(root, method.replace("/", "-"), index.entry(method))
    return find_lab(root)


def test_a_lab_with_every_method_is_clean(lab: Lab) -> None:
    found = list_experiments(lab)
    assert len(found) == len(index.methods())
    wrong = {item.name: check_experiment(lab, item).refusals for item in found}
    assert {name: refusals for name, refusals in wrong.items() if refusals} == {}


def test_each_broken_config_gets_its_refusal_where_it_stands(lab: Lab) -> None:
    cases = generate(COUNT, SEED)
    kept = {item.config: item.config.read_bytes() for item in list_experiments(lab)}
    try:
        wrong = [problem for case in cases for problem in refused_otherwise(lab, case)]
    finally:
        for path, content in kept.items():
            path.write_bytes(content)
    assert not wrong, "\n".join(wrong)
    assert len({case.text for case in cases}) == COUNT
    kinds = Counter(case.kind for case in cases)
    assert set(kinds) == {"type", "range", "choice", "unknown", "owned", "finite"}
    assert {case.method for case in cases} == set(index.methods())


def refused_otherwise(lab: Lab, case: Broken) -> list[str]:
    experiment: Experiment = find_experiment(lab, case.method.replace("/", "-"))
    experiment.config.write_text(case.text, encoding="utf-8")
    # The generated file does not set what the method requires; that is said besides.
    found = [item for item in check_experiment(lab, experiment).refusals if item.code != "param-required"]
    fits = [
        item
        for item in found
        if (item.code, Path(item.file), item.line) == (case.code, experiment.config, case.line)
        and case.hint in item.hint
        and item.message
    ]
    if len(fits) == 1 and len(found) == 1:
        return []
    return [f"{case}: {[(item.code, item.line, item.message, item.hint) for item in found]}\n{case.text}"]
