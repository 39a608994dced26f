"""The package of an evaluation that nobody made an experiment for: a lab with the recipe's template and the settings wanted.

The same settings give the same bytes, so that the console gets each package once.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tuneplane.contract.words import CONFIG_FILE
from tuneplane.evaluation.suites import METHOD, Chosen
from tuneplane.lab.experiments import Experiment
from tuneplane.lab.files import replace_file
from tuneplane.lab.find import Lab
from tuneplane.lab.marker import write_marker
from tuneplane.recipes.index import entry
from tuneplane.recipes.new import write_experiment

NAME = "evaluation"  # of the experiment


@contextmanager
def packaged_lab(project: str, settings: dict[str, Any]) -> Iterator[tuple[Lab, Experiment]]:
    """A lab in a directory of its own, gone afterwards. `settings`: config.yaml, which is JSON here: JSON is valid YAML."""
    with tempfile.TemporaryDirectory(prefix="tuneplane-evaluation-") as directory:
        root = Path(directory).resolve()
        write_marker(root, project, "tp eval")
        experiment = write_experiment(root, NAME, entry(METHOD))
        text = json.dumps(settings, indent=1, ensure_ascii=False) + "\n"
        replace_file(experiment / CONFIG_FILE, text.encode())
        yield Lab(root, project), Experiment(NAME, experiment)


def settings_of(
    chosen: Chosen,
    *,
    limit: int | None,
    num_fewshot: int | None,
    chat_template: bool,
    allow_code: bool,
    gates: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """config.yaml of evalkit/benchmark; None: as each task says."""
    settings = {
        "runner": chosen.runner,
        "packs": list(chosen.packs),
        "tasks": list(chosen.tasks),
        "limit": limit,
        "num_fewshot": num_fewshot,
        "apply_chat_template": chat_template,
        "allow_code": allow_code,
    }
    return {**settings, "eval": {"gates": list(gates)}} if gates else settings
