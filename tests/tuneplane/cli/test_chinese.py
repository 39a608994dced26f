"""What a Chinese reader sees: no English sentence is left, and lines fit the terminal that counts two columns a character."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tuneplane.cli.conftest import Tp
from tuneplane.cli.commands import TREE, Group
from tuneplane.cli.text import width
from tuneplane.quoted_words import json_words, system_words, yaml_words

CHINESE = {"TUNEPLANE_LANG": "zh-Hans", "COLUMNS": "80"}
# Three words in a row that are neither a command, a file nor an option.
ENGLISH = re.compile(r"(?<![\w./:-])(?<!tp )(?!tp )[A-Za-z]{2,} [a-z]{2,} [a-z]{2,}(?![\w./:=-])")


def paths(group: Group, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield above
    for name, entry in group.commands.items():
        yield from paths(entry, (*above, name)) if isinstance(entry, Group) else ((*above, name),)


@pytest.mark.parametrize("path", list(paths(Group("", TREE))), ids=" ".join)
def test_help_is_chinese_and_fits(tp_process: Tp, path: tuple[str, ...]) -> None:
    text, _example, examples = tp_process(*path, "--help", env=CHINESE).out.partition("示例：")
    assert text.startswith("用法：tp ")
    assert "选项：" in text or examples or "命令：" in text
    assert ENGLISH.search(text.partition("\n")[2]) is None
    assert all(width(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a: b: c\n", "不是合法的 YAML：这里不能出现“键: 值”"),
        ("a: [1\nb: 2\n", "不是合法的 YAML：缺少“,”或“]”（解析方括号列表时）"),
        ("learning_rate: fast\n", "learning_rate 必须是数字，当前是：字符串“fast”"),
        ("learning_rate: -1\n", "learning_rate 必须不小于 0，当前是 -1"),
        ("bf16: 3\n", "bf16 必须是布尔值（true 或 false）或 null，当前是：3"),
        ("max_step: 3\n", "是不是想写“max_steps”？"),
    ],
)
def test_problems_of_a_config_are_chinese(tp_process: Tp, lab: Path, text: str, shown: str) -> None:
    (lab / "experiments/first/config.yaml").write_text(text)
    found = tp_process("validate", "first", code=3, env=CHINESE)
    assert shown in found.err
    assert ENGLISH.search(found.err) is None


@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        (("ls",), 3, "不在 lab 里：它和上级目录都没有 tuneplane.yaml"),
        (("ls", "--al"), 2, "tp ls 没有选项 --al"),
        (("job", "ls", "a", "b"), 2, "多余的参数（a b）"),
        (("job", "logs", "x", "--grep"), 2, "选项 '--grep' 需要 1 个参数"),
        (("job", "ls", "--phase", "x"), 2, "'x' 无效，可选：'queued', "),
        (("job", "ls", "--limit", "x"), 2, "'x' 不是合法的整数"),
        (("version", "--server", "http://127.0.0.1:1"), 5, "无法连接 http://127.0.0.1:1：连接被拒绝"),
    ],
)
def test_errors_are_chinese(tp_process: Tp, arguments: tuple[str, ...], code: int, shown: str) -> None:
    found = tp_process(*arguments, code=code, env=CHINESE)
    assert shown in found.err
    assert ENGLISH.search(found.err) is None


def test_quoted_words_are_the_originals_in_english() -> None:
    assert system_words(OSError(2, "No such file or directory", "x")) == "No such file or directory"
    assert system_words(ConnectionError("[Errno 111] Connection refused")) == "Connection refused"
    assert system_words(ValueError()) == "ValueError"
    assert json_words(ValueError("odd")) == "odd"
    assert yaml_words("while parsing a node", "found a thing") == "while parsing a node found a thing"
    assert yaml_words(None, "found a thing") == "found a thing"
