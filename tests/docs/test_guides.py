"""Whoever types what README and the guides say, from top to bottom, gets where they promise: a real console, real TRL."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from tests.docs.pages import LANGUAGES, blocks, guides
from tests.e2e.harness import USER, Console
from tests.repo.tree import relative
from tests.services.session import ROOT

pytestmark = [pytest.mark.training, pytest.mark.timeout(600)]
CONSOLE = "http://127.0.0.1:8642"
MODEL = "model/checkpoints/checkpoint-8"
# The run that was submitted last is what the pages call RUN.
NEWEST = 'tp job ls --json | {python} -c \'import json, sys; print(json.load(sys.stdin)["items"][0]["id"])\''
FIRST_RUN = "first-run.md"
GENERATE = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
model, tokenizer = AutoModelForCausalLM.from_pretrained(sys.argv[1]), AutoTokenizer.from_pretrained(sys.argv[1])
asked = tokenizer.apply_chat_template(
    [{"role": "user", "content": "What is 1 plus 1?"}], add_generation_prompt=True, return_tensors="pt", return_dict=True
)
print(model.generate(**asked, max_new_tokens=4, min_new_tokens=4).shape[1] - asked["input_ids"].shape[1])
"""
# Both languages tell to type the same, as test_commands.py holds them to, so a page is typed in one of them, by turns.
TYPED = [pages for pages in zip(*map(guides, LANGUAGES), strict=False) if any(block.run for block in blocks(pages[0]))]
IN_TURN = [
    (language, pages[LANGUAGES.index(language)])
    for pages, language in zip(TYPED, cycle(reversed(LANGUAGES)), strict=False)
]


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, training_runtime: Path) -> Iterator[Console]:
    folder = tmp_path_factory.mktemp("docs") / "console"
    running = Console(folder, {"TUNEPLANE_RUNTIMES_DIR": str(training_runtime.parent)}).start()
    running.add_user()
    running.admin("user", "add", "ada", "--password-stdin", text="four random words here\n")  # whom the quotas are for
    yield running
    running.stop()


@pytest.mark.parametrize(("language", "page"), IN_TURN, ids=[relative(page) for _language, page in IN_TURN])
def test_a_page_works_from_top_to_bottom(
    language: str, page: Path, console: Console, tmp_path: Path, training_runtime: Path
) -> None:
    type_page(page, language, console, tmp_path)
    if page.name == FIRST_RUN:
        the_model_writes(tmp_path, training_runtime)


def test_the_first_run_names_the_model_that_it_leaves() -> None:
    for language in LANGUAGES:
        page = ROOT / "docs" / language / "guides" / FIRST_RUN
        assert f'from_pretrained("{MODEL}")' in page.read_text(encoding="utf-8")


def the_model_writes(tmp_path: Path, training_runtime: Path) -> None:
    """What the page of the first run promises: its checkpoint answers, and the pages it opened are there."""
    wrote = subprocess.run(
        [training_runtime / "bin" / "python", "-c", GENERATE, MODEL],
        cwd=tmp_path / "my-lab", capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert wrote.stdout.strip() == "4", wrote.stderr
    shown = (tmp_path / "notes").read_text().splitlines()
    assert [line.split("/")[0] for line in shown] == ["200 ", "200 "]
    assert [line.split("/")[1] for line in shown] == ["device", "jobs"]


def type_page(page: Path, language: str, console: Console, folder: Path) -> None:
    """Type every block of the page that is meant to be run into one shell, in `folder`; the first failure ends it."""
    lines = [line for block in blocks(page) if block.run for line in block.commands]
    script = folder / "page.sh"
    script.write_text("set -eux\n" + "".join(f"{line}\n" for line in _prepared(lines, console)))
    reader = shlex.join([sys.executable, str(Path(__file__).with_name("reader.py")), "%s"])
    env = console.env | {
        "HOME": str(folder), "TUNEPLANE_HOME": str(folder / "home"), "TUNEPLANE_LANG": language,
        "DISPLAY": ":0", "BROWSER": reader, "READER_NAME": USER, "READER_PASSWORD": console.password,
        "READER_NOTES": str(folder / "notes"),
    }  # fmt: skip
    done = subprocess.run(
        ["bash", script], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=400, check=False
    )  # fmt: skip
    assert done.returncode == 0, f"{relative(page)}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
    assert "Traceback" not in done.stderr


def _prepared(lines: list[str], console: Console) -> Iterator[str]:
    for line in lines:
        yield re.sub(r"\bRUN\b", '"$RUN"', line.replace(CONSOLE, console.url))
        if line.startswith("tp submit ") and "--dry-run" not in line:
            yield f"RUN=$({NEWEST.format(python=shlex.quote(sys.executable))})"
