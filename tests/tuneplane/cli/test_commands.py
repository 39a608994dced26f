"""The table of commands: every one of them has a help with an example, and a wrong word gets the nearest right one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tuneplane.cli.conftest import Tp
from tuneplane import __version__
from tuneplane.cli.commands import TREE, Command, Group


def commands(group: dict[str, Command | Group], *path: str) -> Iterator[tuple[str, ...]]:
    for name, entry in group.items():
        if isinstance(entry, Group):
            yield from commands(entry.commands, *path, name)
        else:
            yield (*path, name)


ALL = list(commands(TREE))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_says_what_it_does_with_an_example(tp: Tp, path: tuple[str, ...]) -> None:
    answer = tp(*path, "--help")
    assert answer.out.startswith(f"Usage: tp {' '.join(path)}")
    assert f"  tp {' '.join(path)}" in answer.out.split("Example:")[1]
    assert tp(*path, "-h").out == answer.out


@pytest.mark.parametrize("path", [(), ("job",), ("server",), ("recipe",)], ids=" ".join)
def test_a_group_lists_its_commands(tp: Tp, path: tuple[str, ...]) -> None:
    group = TREE[path[0]] if path else Group("", TREE)
    assert isinstance(group, Group)
    for arguments in (path, (*path, "--help"), (*path, "-h")):
        text = tp(*arguments).out
        assert all(f"\n  {name}" in text for name in group.commands)


def test_the_commands_are_those_of_the_design() -> None:
    assert {" ".join(path) for path in ALL} >= {
        "init", "login", "logout", "server add", "server use", "server ls", "methods", "new", "ls", "validate", "submit",
        "status", "job ls", "job show", "job logs", "job cancel", "job wait", "job metrics", "job samples",
        "job artifacts", "job download", "job open", "recipe lock", "recipe diff", "version",
    }  # fmt: skip


def test_the_version_is_told(tp: Tp) -> None:
    assert tp("--version").out == f"tuneplane {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sumbit",), "tp submit"),
        (("job", "log"), "tp job logs"),
        (("job", "--all"), "no option --all"),
        (("--verbose",), "no option --verbose"),
        (("xyzzy",), "tp --help"),
        (("submit", "--profil", "cpu"), "--profile"),
        (("new", "x"), "tp new needs --method"),
        (("server", "add", "x"), "tp server add needs URL"),
        (("job", "show"), "tp job show needs JOB"),
        (("ls", "extra"), "extra"),
        (("job", "ls", "--limit", "0"), "--limit"),
        (("job", "ls", "--phase", "done"), "succeeded"),
        (("methods", "show", "a", "b"), "one method"),
        (("validate",), "lab"),
    ],
)
def test_a_wrong_command_line_is_two_with_what_to_do(tp: Tp, arguments: tuple[str, ...], words: str) -> None:
    answer = tp(*arguments, code=3 if arguments == ("validate",) else 2)
    assert words in answer.err
    assert answer.out == ""
    assert answer.err.count("\n") <= 3


def test_a_wrong_command_line_is_json_where_json_was_asked_for(tp: Tp) -> None:
    assert tp("job", "lss", "--json", code=2).problem["exit_code"] == 2
    found = tp("job", "ls", "--limi", "3", "--json", code=2).problem
    assert (found["code"], found["hint"]) == ("usage", "did you mean --limit?")


def test_a_fault_of_tp_itself_is_one_line(tp: Tp, monkeypatch: pytest.MonkeyPatch, lab: object) -> None:
    def crash(*_args: object) -> None:
        raise RuntimeError("something\nunforeseen")

    monkeypatch.setattr("tuneplane.cli.ls.list_experiments", crash)
    answer = tp("ls", code=1)
    assert "RuntimeError: something" in answer.err
    assert "TUNEPLANE_DEBUG" in answer.err
    assert tp("ls", "--json", code=1).problem["code"] == "internal-error"
