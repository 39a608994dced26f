"""`tp admin` against a real console: users, quotas, policies, maintenance and approvals, as an administrator types them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.harness import USER, Client, Console, wait_until

pytestmark = pytest.mark.timeout(300)
PASSWORD = "four random words here"
EXTERNAL = ("--observability-url", "https://curves.example.org/run")


@pytest.fixture
def admin(tmp_path: Path, start_console: Callable[..., Console]) -> Client:
    """An administrator with `tp` signed in, on a console with eight invented cards."""
    console = start_console(TUNEPLANE_SIMULATED_GPUS="h200:8")
    token = console.add_user(scopes=("read", "write", "admin"))
    return Client(tmp_path / "admin", console, token).prepare()


@pytest.fixture
def bob(admin: Client, tmp_path: Path) -> Client:
    """A user whom the administrator added, with an experiment that waits for a file."""
    admin.tp("admin", "user", "add", "bob", "--password-stdin", text=PASSWORD + "\n")
    client = replace(admin, folder=tmp_path / "bob", token=admin.console.new_token("bob")).prepare()
    experiment = client.new("first", "custom/custom")
    script = 'while [ ! -e "$TUNEPLANE_OUT_DIR/go" ]; do sleep 0.1; done\n'
    (experiment / "train.sh").write_text(script)
    return client


def submit(client: Client, *options: str, code: int = 0) -> str:
    """Submit on two invented cards; the run id, or nothing when it is refused."""
    answer = client.tp("submit", "first", "--profile", "h200:2", *EXTERNAL, *options, "--json", code=code)
    return str(answer.json["id"]) if code == 0 else answer.err


def phase(client: Client, run: str) -> str:
    return str(client.show(run)["phase"])


def let_go(client: Client, run: str) -> None:
    out = next(client.console.storage.glob(f"projects/*/*/jobs/{run}/attempts/1/out"))
    (out / "go").touch()


def test_users_come_and_go(admin: Client, bob: Client) -> None:
    listed = admin.tp("admin", "user", "ls", "--json").json["items"]
    assert [(item["username"], item["admin"]) for item in listed] == [(USER, True), ("bob", False)]
    assert bob.tp("admin", "user", "ls", code=3).err.startswith("refused")
    taken = admin.tp("admin", "user", "add", "BOB", "--password-stdin", text=PASSWORD + "\n", code=1)
    assert "taken" in taken.err
    assert admin.tp("admin", "user", "add", "eve", "--password-stdin", text="short\n", code=3).err
    assert admin.tp("admin", "user", "add", "eve", "--password-stdin", text="", code=2).err
    assert PASSWORD not in taken.out + taken.err + admin.console.log()
    assert "--yes" in admin.tp("admin", "user", "disable", "bob", code=2).err
    admin.tp("admin", "user", "disable", "bob", "--yes")
    assert "disabled since" in admin.tp("admin", "user", "ls").out
    assert bob.tp("status", code=4).err
    admin.tp("admin", "user", "enable", "bob")
    assert bob.tp("status").code == 0
    assert "your own account" in admin.tp("admin", "user", "disable", USER, "--yes", code=3).err
    assert admin.tp("admin", "user", "disable", "nobody", "--yes", code=1).err


def test_a_quota_is_set_shown_kept_to_and_given_back(admin: Client, bob: Client) -> None:
    admin.tp("admin", "quota", "set", "--default", "user", "--gpus", "4", "--max-priority", "0")
    said = admin.tp("admin", "quota", "set", "bob", "--gpus", "3", "--jobs", "none", "--max-duration", "2h").out
    assert "GPUs at once" in said
    assert "2h" in said
    shown = admin.tp("admin", "quota", "show", "bob", "--json").json
    assert shown["own"] == {"gpus": 3, "jobs": None, "max_seconds": 7200}
    assert shown["sources"]["max_priority"] == "default"
    assert "own" in admin.tp("admin", "quota", "show", "bob").out
    table = admin.tp("admin", "quota", "ls").out
    assert "(every user)" in table
    assert "GPUs at once: 3" in table
    # It is kept to, and the one who is refused reads the figure, whose it is and who can change it.
    refused = bob.tp("submit", "first", "--profile", "h200:4", *EXTERNAL, "--priority", "5", code=3).err
    assert "[quota-never-fits]" in refused
    assert "[priority-over-limit]" in refused
    assert "the user bob may have 3 GPUs at once, and the job wants 4" in refused
    assert USER in refused
    first = submit(bob)
    wait_until("the first runs", lambda: phase(bob, first) == "running")
    second = submit(bob)
    wait_until("it is said why", lambda: (bob.show(second)["waiting"] or {}).get("kind") == "quota")
    assert phase(bob, second) == "queued"
    status = bob.tp("status").out
    assert "GPUs at once" in status
    assert "#######..." in status
    assert "2 of 3" in status
    # A restart forgets nothing.
    admin.console.kill()
    admin.console.start()
    assert admin.tp("admin", "quota", "show", "bob", "--json").json["use"]["gpus"] == 2
    assert phase(bob, second) == "queued"
    admin.tp("admin", "quota", "set", "bob", "--gpus", "default")
    wait_until("the new figure lets it start", lambda: phase(bob, second) == "running")
    assert "--yes" in admin.tp("admin", "quota", "unset", "bob", code=2).err
    admin.tp("admin", "quota", "unset", "bob", "--yes")
    assert admin.tp("admin", "quota", "show", "bob", "--json").json["own"] == {}
    for run in (first, second):
        let_go(bob, run)
        bob.wait(run)
    audited = [item["action"] for item in admin.api("/audit?target=user:bob")["items"]]
    assert audited.count("quota.set") == 3


def test_a_stale_change_of_a_quota_is_refused_with_who_was_first(admin: Client, bob: Client) -> None:
    admin.tp("admin", "quota", "set", "bob", "--gpus", "3")
    late = admin.tp("admin", "quota", "set", "bob", "--gpus", "8", "--if-version", "0", code=1).err
    assert USER in late
    assert "gpus 3" in late
    assert admin.tp("admin", "quota", "show", "bob", "--json").json["limits"]["gpus"] == 3


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("quota", "set", "bob"), 2, "--gpus 8"),
        (("quota", "set", "--gpus", "1"), 2, "--default"),
        (("quota", "set", "bob", "--default", "user", "--gpus", "1"), 2, "--default"),
        (("quota", "set", "a/b/c", "--gpus", "1"), 2, "OWNER/PROJECT"),
        (("quota", "set", "bob", "--gpus", "many"), 2, "whole number"),
        (("quota", "set", "bob", "--gpu-hours-day", "nan"), 2, "finite"),
        (("quota", "set", "bob", "--max-duration", "soon"), 2, "2h"),
        (("quota", "set", "bob", "--gpus", "-1"), 3, "[quota-invalid]"),
        (("quota", "set", "bob", "--max-priority", "101"), 3, "[quota-invalid]"),
        (("quota", "set", "bob", "--profiles", "h900"), 3, "[profile-unknown]"),
        (("quota", "set", "bob", "--gpu-hours-day", "100", "--gpu-hours-month", "50"), 3, "[quota-contradictory]"),
        (("quota", "set", "nobody", "--gpus", "1"), 1, "nobody"),
        (("quota", "show", "bob/nothing"), 1, "bob/nothing"),
        (("policy", "set", "approval", "gpus"), 2, "FIELD=VALUE"),
        (("policy", "set", "approval", "cards=1"), 3, "[policy-invalid]"),
        (("policy", "set", "approval", "gpus=-1"), 3, "[policy-invalid]"),
        (("policy", "set", "drain", "on=true"), 2, "tp admin drain"),
        (("policy", "set", "watchdog", "stop_stalled=true"), 2, "--yes"),
        (("policy", "show", "everything"), 3, "refused"),
        (("drain", "on"), 2, "--yes"),
        (("approvals", "reject", "06fq9k2mc8v1x3ra"), 2, "--why"),
        (("approvals", "approve", "06fq"), 2, "full run id"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_one_clear_answer(
    shared_admin: Client, arguments: tuple[str, ...], code: int, words: str
) -> None:
    answer = shared_admin.tp("admin", *arguments, code=code)
    assert answer.out == ""
    assert words in answer.err
    assert shared_admin.api("/admin/quotas/users/bob")["version"] == 0
    assert all(item["version"] == 0 for item in shared_admin.api("/admin/policies")["items"])


@pytest.fixture(scope="module")
def shared_admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """One console for what changes nothing."""
    folder = tmp_path_factory.mktemp("admin")
    console = Console(folder / "console", {"TUNEPLANE_SIMULATED_GPUS": "h200:8"}).start()
    token = console.add_user(scopes=("read", "write", "admin"))
    client = Client(folder / "client", console, token).prepare()
    client.tp("admin", "user", "add", "bob", "--password-stdin", text=PASSWORD + "\n")
    yield client
    console.stop()


def test_maintenance_holds_back_what_is_new_and_lets_the_rest_end(admin: Client, bob: Client) -> None:
    running = submit(bob)
    wait_until("it runs", lambda: phase(bob, running) == "running")
    admin.tp("admin", "drain", "on", "--text", "new disks", "--yes")
    waiting = submit(bob)
    status = bob.tp("status").out
    assert "maintenance since" in status
    assert "new disks" in status
    assert running in admin.tp("admin", "drain", "status").out
    let_go(bob, running)
    bob.wait(running)
    assert admin.tp("admin", "drain", "status", "--json").json["live"] == []
    assert phase(bob, waiting) == "queued"
    admin.tp("admin", "drain", "off")
    wait_until("it starts", lambda: phase(bob, waiting) == "running")
    let_go(bob, waiting)
    bob.wait(waiting)


def test_a_big_job_waits_for_an_administrator_who_may_refuse_it(admin: Client, bob: Client) -> None:
    admin.tp("admin", "policy", "set", "approval", "gpus=1")
    assert admin.tp("admin", "policy", "show", "approval", "--json").json["items"][0]["value"]["gpus"] == 1
    wanted, unwanted = submit(bob), submit(bob)
    listed = admin.tp("admin", "approvals", "ls", "--json").json["items"]
    assert [item["id"] for item in listed] == [wanted, unwanted]
    assert "bob" in admin.tp("admin", "approvals", "ls").out
    assert bob.tp("admin", "approvals", "approve", wanted, code=3).err
    admin.tp("admin", "approvals", "approve", wanted)
    admin.tp("admin", "approvals", "reject", unwanted, "--why", "after Friday please", "--yes")
    wait_until("the approved one runs", lambda: phase(bob, wanted) == "running")
    refused = bob.wait(unwanted, "cancelled")
    assert "after Friday please" in str(refused)
    assert admin.tp("admin", "approvals", "ls").err
    let_go(bob, wanted)
    bob.wait(wanted)
