"""The client's home: named servers and tokens, private, whole after every crash, never sent to the wrong address."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tuneplane.client import servers
from tuneplane.client.errors import ConsoleError, NotSignedInError
from tuneplane.contract.refusals import RefusedError


def test_the_first_server_is_the_one_in_use_and_others_can_be_chosen() -> None:
    servers.add_server("one", "http://one.example/")
    servers.add_server("two", "https://two.example:8443")
    assert servers.choose().name == "one"
    servers.use_server("two")
    assert servers.choose().url == "https://two.example:8443"
    assert [item.name for item in servers.list_servers()[0]] == ["one", "two"]


def test_what_was_asked_for_comes_first_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two", "three"):
        servers.add_server(name, f"http://{name}.example")
    monkeypatch.setenv("TUNEPLANE_SERVER", "two")
    assert servers.choose().name == "two"
    assert servers.choose("three").name == "three"
    assert servers.choose("http://else.example/x/").url == "http://else.example/x"
    assert servers.choose("http://one.example").name == "one"


def test_the_token_belongs_to_the_address_not_to_the_name() -> None:
    servers.save_login("one", "http://one.example", "secret", "me")
    assert servers.choose("one").token == "secret"
    servers.add_server("one", "http://other.example")
    assert servers.choose("one").token is None
    assert servers.choose("http://one.example").token == "secret"


def test_the_token_of_the_environment_takes_the_place_of_a_kept_one(monkeypatch: pytest.MonkeyPatch) -> None:
    servers.save_login("one", "http://one.example", "kept", "me")
    monkeypatch.setenv("TUNEPLANE_TOKEN", "  given\n")
    assert (servers.choose().token, servers.choose().token_from) == ("given", "environment")


def test_the_home_and_its_files_are_private(home: Path) -> None:
    home.mkdir(mode=0o755)
    servers.save_login("one", "http://one.example", "secret", "me")
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()} == {0o600}
    assert "secret" not in (home / "servers.json").read_text()


def test_tokens_that_everyone_may_read_are_made_private_again(home: Path) -> None:
    servers.save_login("one", "http://one.example", "secret", "me")
    (home / "credentials.json").chmod(0o644)
    servers.choose()
    assert stat.S_IMODE((home / "credentials.json").stat().st_mode) == 0o600


def test_a_token_is_not_shown_with_its_server() -> None:
    servers.save_login("one", "http://one.example", "secret", "me")
    assert "secret" not in repr(servers.choose())


def test_a_forgotten_login_leaves_the_server() -> None:
    servers.save_login("one", "http://one.example", "secret", "me")
    assert servers.forget_login("http://one.example")
    assert not servers.forget_login("http://one.example")
    assert servers.choose().token is None


def test_reading_makes_nothing(home: Path) -> None:
    with pytest.raises(NotSignedInError, match="no server"):
        servers.choose()
    assert not home.exists()


@pytest.mark.parametrize("name", ["nowhere", "on"])
def test_an_unknown_name_is_refused_with_the_nearest(name: str) -> None:
    servers.add_server("one", "http://one.example")
    with pytest.raises(RefusedError) as caught:
        servers.choose(name)
    assert ("“one”" in caught.value.refusals[0].hint) is (name == "on")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "one.example",
        "ftp://x",
        "http://",
        "http://user:pw@x",
        "http://x?a=b",
        "http://x#y",
        "http://[::1",
        "http://x:0",
        "http://a\nb",
    ],
)
def test_what_is_no_address_is_refused_and_changes_nothing(home: Path, url: str) -> None:
    with pytest.raises(RefusedError):
        servers.add_server("one", url)
    assert servers.list_servers() == ([], "")


@pytest.mark.parametrize("name", ["", "a b", "../x", "名", "x" * 64])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(RefusedError):
        servers.add_server(name, "http://one.example")


@pytest.mark.parametrize("text", ["{", "[]", '{"servers": {"one": {}}}', "\udcff"])
def test_a_broken_file_is_told_with_its_path(home: Path, text: str) -> None:
    home.mkdir()
    (home / "servers.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConsoleError, match=r"servers\.json"):
        servers.choose("one")
    assert (home / "servers.json").read_bytes() == text.encode("utf-8", "surrogateescape")


def test_a_crash_while_writing_leaves_the_old_state(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers.save_login("one", "http://one.example", "old", "me")

    def crash(*_args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        servers.save_login("one", "http://one.example", "new", "me")
    monkeypatch.undo()
    monkeypatch.setenv("TUNEPLANE_HOME", str(home))
    assert servers.choose().token == "old"
    assert not [path for path in home.iterdir() if path.suffix == ".tmp"]


def test_a_home_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TUNEPLANE_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(ConsoleError, match="file/home"):
        servers.add_server("one", "http://one.example")


def add(number: int) -> None:
    servers.save_login(f"s{number}", f"http://s{number}.example", "t", "me")


def test_two_commands_at_once_lose_nothing(home: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(12)))
    assert len(servers.list_servers()[0]) == 12
    assert len(json.loads((home / "credentials.json").read_text())["tokens"]) == 12


def test_a_lock_that_never_opens_is_given_up(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    servers.add_server("one", "http://one.example")
    monkeypatch.setattr(servers, "LOCK_SECONDS", 0.1)
    with (home / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ConsoleError, match="lock"):
            servers.add_server("two", "http://two.example")


def test_a_server_logged_in_to_by_address_gets_a_name() -> None:
    assert servers.name_for("http://127.0.0.1:8642") == "default"
    servers.add_server("default", "http://127.0.0.1:8642")
    assert servers.name_for("http://127.0.0.1:8642") == "default"
    assert servers.name_for("https://gpu.example:8443") == "gpu.example-8443"
    assert servers.name_for("https://[::1]:8443") == "server"
