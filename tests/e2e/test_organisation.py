"""A method of the organisation from its directory to a run: refused where one side lacks it, published, fetched, locked, run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.harness import Client, Console
from tests.e2e.refusals import refused
from tests.tuneplane.recipes.organisations import SCRIPT, tree_of, write_recipe

pytestmark = pytest.mark.timeout(300)
METHOD = "custom/acme-script"


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    running = Console(tmp_path_factory.mktemp("organisation") / "console").start()
    yield running
    running.stop()


def test_a_method_of_the_organisation_from_its_directory_to_a_run(console: Console, tmp_path: Path) -> None:
    house = write_recipe(tmp_path / "house", SCRIPT)
    author = Client(tmp_path / "author", console, console.add_user(scopes=("read", "write", "admin")))
    author.prepare()
    author = author.with_env(TUNEPLANE_RECIPE_PATH=str(house))
    author.new("ours", METHOD)
    author.new("plain", "custom/custom")
    assert author.tp("validate", "ours").out == f"ours: valid ({METHOD})\n"
    submit = ("submit", "ours", "--profile", "cpu")

    # The console lacks it; what both have goes on.
    said = refused(author, *submit, code="method-unknown")
    assert f"the console has no recipe {METHOD}, which this client has from {house}" in said
    plain = ("--observability-url", "https://curves.example.org/run", "--dry-run")
    assert "\nadmitted" in author.tp("submit", "plain", "--profile", "cpu", *plain).out

    # Published, it runs.
    author.tp("recipe", "publish", str(house), "--yes")
    assert "differs" not in author.tp("status").out
    run = author.submit("ours")
    assert author.wait(run)["recipe"]["name"] == METHOD
    assert "ours" in author.printed(run)

    # Another client has the lab and not the recipe.
    other = replace(author, folder=tmp_path / "other", extra={})
    shutil.copytree(author.folder, other.folder)
    said = refused(other, *submit, code="method-unknown")
    assert f"the console has the recipe {METHOD}, and this client does not" in said
    fetched = tmp_path / "fetched"
    other.tp("recipe", "fetch", str(fetched))
    assert tree_of(fetched) == tree_of(house)
    other = other.with_env(TUNEPLANE_RECIPE_PATH=str(fetched))
    assert "\nadmitted" in other.tp(*submit, "--dry-run").out

    # One byte on either side is another recipe.
    (fetched / METHOD / "template/train.sh").write_text("echo theirs\n")
    assert "stale" in other.tp("ls").out
    assert "lock-stale" in refused(other, *submit, code="lock-stale catalog-mismatch")
    other.tp("recipe", "lock", "ours")
    refused(other, *submit, code="catalog-mismatch")

    # What was published is there after a restart, and a console does not start on what is not sound.
    console.stop()
    console.start()
    assert "\nadmitted" in author.tp(*submit, "--dry-run").out
