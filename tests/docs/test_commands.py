"""Every command that a page, or a sentence of ours, tells people to type exists, with its options."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.command_lines import PROGRAMS, WrongLineError, check, check_text, simple_commands
from tests.docs.pages import LANGUAGES, READMES, blocks, everything, guides, manual, spans
from tests.repo.tree import PACKAGES, committed_files, relative
from tests.services.session import ROOT
from tuneplane.cli.commands import TREE, Command, Group
from tuneplane_server.settings import load_settings

_MENTION = re.compile(r"(?<![\w/.-])(tp|tuneplane-server|tuneplane-node) ([a-z-]+)( [a-z-]+)?")
_NO_COMMANDS = {"tp on", "tp failed"}  # “tp on <host>” asks to be let in; “tp failed: …” is a fault of its own


def test_every_command_of_a_page_exists_with_its_options() -> None:
    wrong, seen = [], 0
    for page in everything():
        for block in blocks(page):
            for line in block.commands:
                for words in simple_commands(line):
                    seen += 1
                    wrong += _problem(
                        f"{relative(page)}:{block.line}: {line}", lambda words=words: check(words, whole=True)
                    )
        for number, text in spans(page):
            if text.split(" ")[0] in PROGRAMS and text.strip() not in PROGRAMS:
                seen += 1
                wrong += _problem(f"{relative(page)}:{number}: {text}", lambda text=text: check_text(text))
    assert wrong == []
    assert seen > 150


def _problem(where: str, examine: Callable[[], None]) -> list[str]:
    try:
        examine()
    except WrongLineError as error:
        return [f"{where}: {error}"]
    return []


@pytest.mark.parametrize(
    "line",
    [
        "tp sumbit first --profile cpu",
        "tp job sow RUN",
        "tp submit first --profil cpu",
        "tp init a b",
        "tp job show",
        "cd x && tp lss",
        "TUNEPLANE_RUNTIME=process tuneplane-server serv",
        "tuneplane-server runtime built trl-1.16",
        "tuneplane-node chek",
        "make quikstart",
    ],
)
def test_a_wrong_line_is_seen(line: str) -> None:
    commands = list(simple_commands(line))
    with pytest.raises(WrongLineError):
        check(commands[-1], whole=True)


@pytest.mark.parametrize("text", ["tp job logs JOB [-f] [--nofollow]", "tp job shw JOB", "tuneplane-node check [--runtim3 R]", "tp wait JOB…"])  # fmt: skip
def test_a_wrong_synopsis_is_seen(text: str) -> None:
    with pytest.raises(WrongLineError):
        check_text(text)


def test_both_languages_tell_to_type_the_same() -> None:
    for english, chinese in zip(guides("en"), guides("zh-Hans"), strict=True):
        ours = [(block.run, block.commands) for block in blocks(english)]
        theirs = [(block.run, block.commands) for block in blocks(chinese)]
        assert ours == theirs, relative(chinese)


def test_both_languages_name_the_same_commands() -> None:
    pairs = [(READMES["en"], READMES["zh-Hans"]), *zip(manual("en"), manual("zh-Hans"), strict=True)]
    for english, chinese in pairs:
        assert _commands_named(english) == _commands_named(chinese), relative(chinese)


def _commands_named(page: Path) -> list[str]:
    """Placeholders such as `<address>` are words of the language."""
    return sorted({re.sub("<[^>]+>", "<>", text) for _line, text in spans(page) if text.split(" ")[0] in PROGRAMS})


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_reference_has_every_command_of_tp(language: str) -> None:
    page = (ROOT / "docs" / language / "reference" / "cli.md").read_text(encoding="utf-8")
    missing = [name for name in _names(TREE) if f"`{name}" not in page and f"`{name.rpartition(' ')[2]} " not in page]
    assert missing == ["tp server ls"]  # written as `ls` beside its sisters
    assert "`ls`" in page


def _names(commands: dict[str, Command | Group], path: str = "tp") -> list[str]:
    return [
        found
        for name, entry in commands.items()
        for found in (_names(entry.commands, f"{path} {name}") if isinstance(entry, Group) else [f"{path} {name}"])
    ]


def test_sentences_of_the_program_name_commands_that_exist() -> None:
    """Hints such as “tp recipe lock {experiment}” in the sources of all three distributions."""
    wrong, seen = [], 0
    for path in committed_files():
        if path.suffix != ".py" or not any(path.is_relative_to(base) for base in PACKAGES.values()):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                continue
            for match in _MENTION.finditer(node.value):
                if f"{match[1]} {match[2]}" in _NO_COMMANDS:
                    continue
                seen += 1
                wrong += _problem(f"{relative(path)}:{node.lineno}: {match[0]}", lambda match=match: _check_name(match))
    assert wrong == []
    assert seen > 50


def _check_name(match: re.Match[str]) -> None:
    """The second word counts only where the first is a group: “tp methods lists what there is”."""
    program, first, second = match.groups()
    words = [program, first]
    entry = TREE.get(first) if program == "tp" else None
    if second and (
        isinstance(entry, Group)
        or (program, first) in {("tuneplane-server", name) for name in ("user", "token", "runtime")}
    ):
        words.append(second.strip())
    check(words, whole=False)


def test_variables_that_pages_name_are_known_to_the_code() -> None:
    rooms = [
        *(base for base in PACKAGES.values()),
        ROOT / "scripts",
        ROOT / "tests" / "services",
        ROOT / "tests" / "chaos",
    ]
    known = {name for name, _value, _origin in load_settings({}).listing()}
    for path in committed_files():
        if any(room in path.parents for room in rooms) and path.suffix in ("", ".py", ".sh"):
            known.update(re.findall(r"\bTUNEPLANE_[A-Z0-9_]+", path.read_text(encoding="utf-8")))
    named = {
        (relative(page), name)
        for page in everything()
        for name in re.findall(r"\bTUNEPLANE_[A-Z0-9_]*[A-Z0-9]\b", page.read_text(encoding="utf-8"))
        if not name.startswith("TUNEPLANE_IMAGE_")  # one per framework
    }
    assert len(named) > 100
    assert sorted(f"{page}: {name}" for page, name in named if name not in known) == []
