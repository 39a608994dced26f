"""`tp` as a process: signals, closed pipes, narrow terminals, languages; never a traceback."""

from __future__ import annotations

import gettext
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo

from tests.tuneplane.cli.conftest import TP, Tp
from tests.tuneplane.cli.scripted_console import API, RUN, ScriptedConsole
from tests.tuneplane.client.scripted_server import Reply, Request, as_json
from tuneplane import i18n
from tuneplane.cli import click_words, leaf
from tuneplane.cli.job import ls as job_ls


def test_both_names_of_the_command_are_installed() -> None:
    for name in ("tp", "tuneplane"):
        done = subprocess.run([Path(sys.executable).parent / name, "--version"], capture_output=True, check=True)
        assert done.stdout.startswith(b"tuneplane ")


def test_ctrl_c_is_130_and_quiet(console: ScriptedConsole) -> None:
    def first_page(_request: Request) -> Reply:
        os.kill(running.pid, signal.SIGINT)  # the client sits in the read of this very answer
        return Reply(hang=True)

    console.server.answers[f"{API}/jobs/{RUN}/logs"] = first_page
    environment = {**os.environ, "TUNEPLANE_TOKEN": console.token, "TUNEPLANE_SERVER": console.url}
    running = subprocess.Popen([*TP, "job", "logs", RUN, "-f"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (130, b"", b"")


def test_ctrl_c_while_following_a_submission_leaves_the_job_running(lab: Path, console: ScriptedConsole) -> None:
    def first_page(_request: Request) -> Reply:
        os.kill(running.pid, signal.SIGINT)
        return Reply(hang=True)

    console.expect_packages()
    console.server.answers[f"{API}/jobs/{RUN}/logs"] = first_page
    environment = {**os.environ, "TUNEPLANE_TOKEN": console.token, "TUNEPLANE_SERVER": console.url}
    command = [*TP, "submit", "first", "--profile", "cpu", "--follow"]
    running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert f"the job goes on: tp job logs {RUN} -f" in err
    assert "Traceback" not in err
    assert console.server.requests(f"{API}/jobs/{RUN}/cancel") == []


def test_a_reader_that_goes_away_ends_it_quietly(console: ScriptedConsole) -> None:
    line = {"text": "x" * 200, "attempt": 1, "rank": 0}
    console.server.answers[f"{API}/jobs/{RUN}/logs"] = as_json(
        {"items": [line] * 5000, "next_cursor": "c", "more": True}
    )
    environment = {**os.environ, "TUNEPLANE_TOKEN": console.token, "TUNEPLANE_SERVER": console.url}
    running = subprocess.Popen([*TP, "job", "logs", RUN], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert running.stdout is not None
    assert running.stderr is not None
    assert running.stdout.readline() == b"x" * 200 + b"\n"
    running.stdout.close()
    err = running.stderr.read()
    running.stderr.close()
    assert running.wait(60) == 141
    assert err == b""


@pytest.mark.parametrize("where", [">&-", "2>&-", ">&- 2>&-", "> /dev/full"])
@pytest.mark.parametrize("command", ["methods", "--help", "nonsense"])
def test_an_output_that_cannot_be_written_is_no_crash(command: str, where: str) -> None:
    line = f"{' '.join(TP)} {command} {where}"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    if "full" in where and command != "nonsense":
        assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "gbk"])
def test_a_narrow_terminal_gets_replacements(tp_process: Tp, encoding: str) -> None:
    answer = tp_process("new", "实验é", code=2, env={"PYTHONIOENCODING": encoding})
    assert "--method" in answer.err
    assert tp_process("validate", "实验é", code=3, env={"PYTHONIOENCODING": encoding}).err


def test_the_language_is_that_of_the_environment(tp_process: Tp) -> None:
    english = tp_process("--help").out
    assert tp_process("--help", env={"TUNEPLANE_LANG": "en", "LANG": "zh_CN.UTF-8"}).out == english
    for env in ({"TUNEPLANE_LANG": "zh-Hans"}, {"LC_ALL": "zh_CN.UTF-8"}):
        assert tp_process("--help", env=env).code == 0
        assert tp_process("ls", "--help", env=env).code == 0
        assert tp_process("ls", code=3, env=env).err


def test_the_words_of_the_argument_parser_are_translated_too(tp: Tp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    catalog = Catalog(locale="zh_Hans")
    for word in click_words.WORDS:
        catalog.add(word, f"译 {word}")
    place = tmp_path / "locale/zh_Hans/LC_MESSAGES/tuneplane.mo"
    place.parent.mkdir(parents=True)
    with place.open("wb") as file:
        write_mo(file, catalog)
    monkeypatch.setattr(leaf, "LOCALE", tmp_path / "locale")
    # click keeps a command's --help once it has made it, in the language of that moment.
    monkeypatch.setattr(job_ls.command, "_help_option", None)
    monkeypatch.setenv("LANGUAGE", "")
    domain = gettext.textdomain()
    try:
        with i18n.using_language("zh-Hans"):
            text = tp("job", "ls", "--help").out
            wrong = tp("job", "ls", "--limit", "0", code=2).err
    finally:
        gettext.textdomain(domain)
    assert text.startswith("译 Usage: tp job ls")
    assert "译 Options" in text
    assert "译 Show this message" in text
    assert "译 0 is not in the range" in wrong


def test_a_home_directory_that_is_missing_or_read_only_is_told(tp_process: Tp, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = tp_process(
        "server", "add", "x", "http://x.example", code=1, env={"TUNEPLANE_HOME": str(tmp_path / "file/x")}
    )
    assert "file/x" in answer.err


def test_a_working_directory_that_is_gone_is_told(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", 'cd "$1" && rmdir "$1" && shift && exec "$@"', "sh", gone, *TP, "ls"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (1, 3)
    assert "Traceback" not in done.stderr
    assert done.stderr
