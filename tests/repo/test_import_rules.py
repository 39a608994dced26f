"""Each room imports only what it may; see also the contracts under [tool.importlinter] in pyproject.toml."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.repo import rules
from tests.repo.tree import modules
from tests.services.session import ROOT

Rule = Callable[[str, ast.AST], list[str]]
RULES: list[tuple[Rule, str, str]] = [
    (rules.beyond_the_standard_library, "tuneplane", "runner"),
    (rules.beyond_the_standard_library, "tuneplane", "report"),
    (rules.beyond_the_standard_library, "tuneplane", "adapters"),
    (rules.beyond_the_standard_library, "tuneplane", "contract/words.py"),
    (rules.beyond_the_standard_library, "tuneplane", "contract/names.py"),
    (rules.impurities, "tuneplane_server", "domain"),
    (rules.other_features_data, "tuneplane_server", "features"),
    (rules.data_access_at_the_edge, "tuneplane_server", "features"),
]


@pytest.mark.parametrize(("rule", "package", "room"), RULES, ids=lambda value: getattr(value, "__name__", value))
def test_a_room_keeps_its_rule(rule: Rule, package: str, room: str) -> None:
    seen, broken = 0, {}
    for name, tree in modules(package, room):
        seen += 1
        if found := rule(name, tree):
            broken[name] = found
    assert seen > 0
    assert broken == {}


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (rules.beyond_the_standard_library, "tuneplane.runner.spool", "import yaml"),
        (rules.beyond_the_standard_library, "tuneplane.runner.spool", "def late():\n    from pydantic import BaseModel"),
        (rules.beyond_the_standard_library, "tuneplane.report.queue", "from tuneplane.contract.jobspec import JobSpec"),
        (rules.beyond_the_standard_library, "tuneplane.report.queue", "from tuneplane import client"),
        (rules.beyond_the_standard_library, "tuneplane.report.queue", "from transformers import TrainerCallback"),
        (rules.beyond_the_standard_library, "tuneplane.adapters.trl", "import tomllib"),
        (rules.impurities, "tuneplane_server.domain.phases", "from time import monotonic"),
        (rules.impurities, "tuneplane_server.domain.phases", "import os.path"),
        (rules.impurities, "tuneplane_server.domain.phases", "from datetime import datetime\nx = datetime.now()"),
        (rules.other_features_data, "tuneplane_server.features.jobs.service",
         "from tuneplane_server.features.accounts import repo"),
        (rules.other_features_data, "tuneplane_server.features.jobs.service",
         "from tuneplane_server.features.accounts.tables import User"),
        (rules.data_access_at_the_edge, "tuneplane_server.features.jobs.api", "from sqlalchemy import select"),
        (rules.data_access_at_the_edge, "tuneplane_server.features.jobs.api", "from .repo import find_job"),
    ],
)  # fmt: skip
def test_a_rule_sees_what_breaks_it(rule: Rule, name: str, source: str) -> None:
    assert rule(name, ast.parse(source)) != []


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (rules.beyond_the_standard_library, "tuneplane.runner.spool", "import json, os\nfrom tuneplane.contract import words"),
        (rules.beyond_the_standard_library, "tuneplane.runner.main", "from tuneplane.adapters import compile"),
        (rules.beyond_the_standard_library, "tuneplane.report.integrations.transformers", "from transformers import Trainer"),
        (rules.impurities, "tuneplane_server.domain.phases", "from datetime import datetime\nimport math"),
        (rules.other_features_data, "tuneplane_server.features.jobs.service", "from .repo import find_job"),
        (rules.other_features_data, "tuneplane_server.features.jobs.service",
         "from tuneplane_server.features.accounts.service import Accounts"),
        (rules.data_access_at_the_edge, "tuneplane_server.features.jobs.service", "from .repo import find_job"),
        (rules.data_access_at_the_edge, "tuneplane_server.features.jobs.api",
         "if TYPE_CHECKING:\n    from .tables import Job"),
    ],
)  # fmt: skip
def test_a_rule_lets_good_modules_pass(rule: Rule, name: str, source: str) -> None:
    assert rule(name, ast.parse(source)) == []


def test_the_import_contracts_hold() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--config", "pyproject.toml"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=100)
    assert result.returncode == 0, result.stdout
    assert " 0 broken" in result.stdout
