"""`tp login, logout, server, status, version`: what is kept and when, and what every odd answer comes to."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.services.ports import free_port
from tests.tuneplane.cli.conftest import Tp, tree
from tests.tuneplane.cli.scripted_console import API, RUN, ScriptedConsole, job
from tests.tuneplane.client.scripted_server import Reply, as_json, problem

PAGE = Reply(200, b"<html>Sign in to the proxy</html>", {"Content-Type": "text/html"})


def home() -> Path:
    return Path(os.environ["TUNEPLANE_HOME"])


def test_a_token_on_standard_input_is_checked_and_kept_private(tp_process: Tp, console: ScriptedConsole) -> None:
    answer = tp_process("login", console.url, "--token-stdin", text=f"{console.token}\n")
    assert "as ann" in answer.out
    assert json.loads((home() / "credentials.json").read_text())["tokens"][console.url]["token"] == console.token
    assert stat.S_IMODE((home() / "credentials.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(home().stat().st_mode) == 0o700
    assert tp_process("status").code == 0


@pytest.mark.parametrize(
    ("text", "code"), [("bad-token\n", 4), ("", 2), ("\n", 2), ("two words\n", 2), ("t\u00f6ken\n", 2)]
)
def test_a_failed_login_changes_nothing(tp_process: Tp, console: ScriptedConsole, text: str, code: int) -> None:
    assert tp_process("login", console.url, "--token-stdin", text=text, code=code).err
    assert not home().exists()
    tp_process("login", console.url, "--token-stdin", text=f"{console.token}\n")
    before = tree(home())
    tp_process("login", console.url, "--token-stdin", text=text, code=code)
    assert tree(home()) == before


def device(console: ScriptedConsole, *replies: Reply, interval: int = 1, expires: int = 600) -> None:
    console.server.answers[f"{API}/auth/device"] = as_json(
        {
            "device_code": "device-secret",
            "user_code": "ABCD-1234",
            "verification_uri": f"{console.url}/device",
            "verification_uri_complete": f"{console.url}/device?code=ABCD-1234",
            "interval": interval,
            "expires_in": expires,
        }
    )
    console.server.answers[f"{API}/auth/device/token"] = list(replies)


@pytest.fixture
def no_naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    naps: list[float] = []
    monkeypatch.setattr("tuneplane.cli.login.sleep", naps.append)
    return naps


def test_a_code_confirmed_in_the_browser_logs_in(tp: Tp, console: ScriptedConsole, no_naps: list[float]) -> None:
    device(
        console,
        problem(400, "not-yet"),
        problem(429, "too-many-requests"),
        problem(400, "not-yet"),
        as_json({"token": console.token, "username": "ann"}),
        interval=5,
    )
    answer = tp("login", console.url)
    assert "ABCD-1234" in answer.err
    assert f"{console.url}/device" in answer.err
    assert "device-secret" not in answer.out + answer.err
    assert no_naps == [5, 10, 10]
    assert tp("status", "--json").json["username"] == "ann"


def test_a_code_that_nobody_confirms_or_that_is_denied_changes_nothing(
    tp: Tp, console: ScriptedConsole, no_naps: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    device(console, problem(400, "token-invalid", "the code was denied"))
    assert "the code was denied" in tp("login", console.url, code=1).err
    clock = iter(range(0, 100_000, 300))
    monkeypatch.setattr("tuneplane.cli.login.monotonic", lambda: next(clock))
    device(console, problem(400, "not-yet"))
    assert "not confirmed in time" in tp("login", console.url, code=4).err
    assert not home().exists()


def test_a_console_without_users_says_where_to_begin(tp: Tp, console: ScriptedConsole) -> None:
    console.info["setup_needed"] = True
    assert "set-up link" in tp("login", console.url, code=1).err


@pytest.mark.parametrize("address", ["nowhere", "ftp://x", "http://a:b@c", "http://"])
def test_a_wrong_address_is_refused(tp: Tp, address: str) -> None:
    assert tp("login", address, code=3).err
    assert not home().exists()


def test_an_address_without_a_scheme_means_what_it_looks_like(
    tp: Tp, console: ScriptedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNEPLANE_TOKEN", console.token)
    assert console.url in tp("login", console.url.removeprefix("http://")).out


def test_logging_out_revokes_and_forgets(tp: Tp, signed_in: ScriptedConsole) -> None:
    assert "logged out" in tp("logout").err
    assert [request.method for request in signed_in.server.requests(f"{API}/me/token")] == ["DELETE"]
    assert "tp login" in tp("status", code=4).err
    assert "not logged in" in tp("logout").err


def test_logging_out_works_while_the_console_is_away(tp: Tp, signed_in: ScriptedConsole) -> None:
    signed_in.server.answers[f"{API}/me/token"] = problem(500, "internal-error")
    assert "was not told" in tp("logout").err
    tp("status", code=4)


def test_a_token_of_the_environment_is_not_logged_out(tp: Tp, signed_in: ScriptedConsole, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setenv("TUNEPLANE_TOKEN", "other")
    assert "environment" in tp("logout").err
    assert signed_in.server.requests(f"{API}/me/token") == []


def test_servers_have_names(tp: Tp, signed_in: ScriptedConsole) -> None:
    tp("server", "add", "team", "https://tuneplane.example/")
    items = tp("server", "ls", "--json").json["items"]
    assert [(item["name"], item["in_use"], item["logged_in"]) for item in items] == [
        ("default", True, True),
        ("team", False, False),
    ]
    assert "tp login team" in tp("server", "use", "team").err
    assert "* team" in tp("server", "ls").out
    tp("status", code=4)
    tp("status", "--server", "default")
    assert "did you mean “team”" in tp("server", "use", "taem", code=3).err


def test_status_says_where_and_who_and_what_runs(tp: Tp, lab: Path, signed_in: ScriptedConsole) -> None:
    signed_in.add_job("a" * 16, phase="running")
    signed_in.add_job("b" * 16, phase="queued", waiting={"text": "waits for 8 GPUs"})
    signed_in.add_job("c" * 16, phase="succeeded")
    text = tp("status").out
    assert "demo" in text
    assert "the same on both sides" in text
    assert "a" * 16 in text
    assert "waits for 8 GPUs" in text
    assert "c" * 16 not in text
    signed_in.info["catalog_digest"] = "0" * 64
    assert "differs" in tp("status").out
    found = tp("status", "--json").json
    assert (found["same_catalog"], found["username"], len(found["active"])) == (False, "ann", 2)


def test_recipes_are_compared_with_the_console(tp: Tp, lab: Path, signed_in: ScriptedConsole) -> None:
    assert "current" in tp("recipe", "diff", "first", "--with-console").out
    signed_in.methods["trl/sft"] |= {"version": "2.0", "digest": "f" * 64}
    assert "2.0" in tp("recipe", "diff", "first", "--with-console", code=1).out
    del signed_in.methods["trl/sft"]
    changes = tp("recipe", "diff", "first", "--with-console", "--json", code=1).json["console"]
    assert changes == [{"what": "recipe.name", "locked": "trl/sft", "catalog": ""}]


def test_the_version_of_a_console_needs_no_login(tp: Tp, console: ScriptedConsole) -> None:
    assert tp("version", "--server", console.url, "--json").json["console"]["version"] == "0.1.0"


ODD = {
    "html": PAGE,
    "500": Reply(500, b""),
    "500-html": Reply(500, PAGE.body, PAGE.headers),
    "502-html": Reply(502, PAGE.body, PAGE.headers),
    "empty": Reply(200, b""),
    "list": Reply(200, b"[]", {"Content-Type": "application/json"}),
    "text": Reply(200, b"hello"),
    "redirect": Reply(302, b"", {"Location": "https://sso.example"}),
    "problem-500": problem(500, "internal-error", "its log says more"),
    "hang": Reply(hang=True),
}
COMMANDS: list[tuple[str, tuple[str, ...]]] = [
    ("/server", ("login",)),
    ("/server", ("status",)),
    ("/me", ("status",)),
    ("/jobs", ("job", "ls")),
    (f"/jobs/{RUN}", ("job", "show", RUN)),
    (f"/jobs/{RUN}/logs", ("job", "logs", RUN)),
    (f"/jobs/{RUN}/metrics", ("job", "metrics", RUN)),
    (f"/jobs/{RUN}/samples", ("job", "samples", RUN)),
    (f"/jobs/{RUN}/artifacts", ("job", "artifacts", RUN)),
    (f"/jobs/{RUN}/artifacts", ("job", "download", RUN)),
    (f"/jobs/{RUN}", ("job", "wait", RUN)),
    (f"/jobs/{RUN}/cancel", ("job", "cancel", RUN, "--yes")),
    ("/hardware", ("submit", "first", "--profile", "cpu")),
]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=lambda value: value if isinstance(value, str) else "-".join(value[:2]))  # fmt: skip
def test_an_odd_answer_is_one_clear_message_and_five(
    tp: Tp,
    lab: Path,
    signed_in: ScriptedConsole,
    path: str,
    command: tuple[str, ...],
    odd: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TUNEPLANE_HTTP_TIMEOUT", "0.2")
    monkeypatch.setattr("tuneplane.client.http._pause", lambda *_args: 0.0)
    signed_in.add_job()
    signed_in.server.answers[f"{API}{path}"] = ODD[odd]
    before = tree(home()), tree(lab)
    answer = tp(*command, code=5)
    assert answer.out == ""
    assert signed_in.url in answer.err
    assert len(answer.err.strip().splitlines()) == 2
    assert "→" in answer.err
    assert (tree(home()), tree(lab)) == before
    found: Any = tp(*command, "--json", code=5).problem
    assert found["exit_code"] == 5


def test_a_console_that_is_down_is_five_for_every_command(tp: Tp, lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNEPLANE_TOKEN", "t")
    monkeypatch.setenv("TUNEPLANE_SERVER", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setattr("tuneplane.client.http._pause", lambda *_args: 0.0)
    for _path, command in COMMANDS:
        assert "refused" in tp(*command, code=5).err


def test_not_logged_in_is_four_for_every_command(tp: Tp, lab: Path, console: ScriptedConsole, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    tp("server", "add", "default", console.url)
    for _path, command in COMMANDS[1:]:
        assert "tp login" in tp(*command, code=4).err
    monkeypatch.setenv("TUNEPLANE_TOKEN", "expired")
    console.server.answers[f"{API}/jobs/{RUN}"] = problem(401, "not-signed-in")
    for command in (("status",), ("job", "ls"), ("job", "show", RUN)):
        assert "no longer valid" in tp(*command, code=4).err


def test_what_is_not_there_is_one(tp: Tp, signed_in: ScriptedConsole) -> None:
    for command in (("job", "show", RUN), ("job", "cancel", RUN, "--yes"), ("job", "logs", RUN)):
        assert tp(*command, code=1).err.startswith("error:")
    assert tp("job", "show", RUN, "--json", code=1).problem["code"] == "not-found"


def test_a_job_of_a_newer_console_is_still_shown(tp: Tp, signed_in: ScriptedConsole) -> None:
    odd = {**job(phase="hibernating"), "conditions": [{"type": "cold"}], "pools": [{}], "attempts": None, "extra": [1]}
    signed_in.server.answers[f"{API}/jobs/{RUN}"] = as_json(odd)
    assert "hibernating" in tp("job", "show", RUN).out
