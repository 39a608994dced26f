"""Nodes on the hardware page and in `tp admin node`, with a real daemon: it joins, is cordoned, drained and removed, live."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.harness import USER, Client, Console, wait_until
from tests.services.ports import free_port
from tests.tuneplane_node.daemon.served import TOKEN, Daemon
from tests.tuneplane_server.nodes.build import announcement
from tuneplane_node.wire import ANNOUNCE_PATH

pytestmark = pytest.mark.timeout(240)

SCRIPT = 'while [ ! -e "$TUNEPLANE_OUT_DIR/go" ]; do sleep 0.1; done\n'


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """An administrator with `tp` signed in, on a console that runs jobs on nodes."""
    port = free_port()
    settings = {
        "TUNEPLANE_EXECUTOR": "agent",
        "TUNEPLANE_AGENT_TOKEN": TOKEN,
        # Loopback in a form that admission does not know: nodes are other machines as a rule, this one is not.
        "TUNEPLANE_INGEST_URL": f"http://127.1:{port}",
    }
    console = Console(tmp_path / "console", settings, port).start()
    yield Client(tmp_path / "admin", console, console.add_user(scopes=("read", "write", "admin"))).prepare()
    console.stop()


@pytest.fixture
def daemon(tmp_path: Path, client: Client) -> Iterator[Daemon]:
    """A node on this machine with four invented cards."""
    port = str(free_port())
    settings = {
        "TUNEPLANE_STORAGE_ROOT": str(client.console.storage),
        "TUNEPLANE_CONSOLE_URL": client.console.url,
        "TUNEPLANE_NODE_NAME": "gpu-1",
        "TUNEPLANE_NODE_HOST": "127.0.0.1",
        "TUNEPLANE_NODE_PORT": port,
        "TUNEPLANE_NODE_ADDRESS": f"http://127.0.0.1:{port}",
        "TUNEPLANE_RUNTIME": "process",
        "TUNEPLANE_SIMULATED_GPUS": "h200:4",
    }
    daemon = Daemon(tmp_path / "node", settings)
    process = daemon.spawn().process
    yield daemon
    assert process is not None
    process.terminate()
    process.wait(60)


def answer(page: Page, verb: str) -> None:
    """Press a button of the node and say yes to the question."""
    page.locator(f"#do-{verb}-gpu-1").get_by_role("button").click()
    dialog = page.locator("#confirm")
    expect(dialog).to_be_visible()
    dialog.locator("#confirm-yes").click()


def test_a_node_joins_and_is_looked_after(signed_in: Page, client: Client, daemon: Daemon) -> None:
    page, health = signed_in, signed_in.locator("#node-gpu-1 [data-health]")
    page.goto(f"{client.console.url}/hardware")
    expect(health).to_have_attribute("data-health", "ready")  # whenever it joins: the page draws itself again

    (client.new("first", "custom/custom") / "train.sh").write_text(SCRIPT)
    options = ("--profile", "h200:2", "--observability-url", "https://curves.example.org/run")
    run = client.tp("submit", "first", *options, "--json").json["id"]
    wait_until("it runs", lambda: client.show(run)["phase"] == "running", 120)
    (shown,) = client.tp("admin", "node", "ls", "--json").json["items"]
    assert ([card["job_id"] for card in shown["cards"]], shown["storage_root"]) == (
        [run, run, None, None],
        str(client.console.storage),
    )
    expect(page.locator(f"#node-gpu-1 a[href='/jobs/{run}']").first).to_be_visible()

    answer(page, "drain")
    expect(page.locator("#node-gpu-1 [data-state=draining]")).to_be_visible()
    assert "draining, 1 run left" in client.tp("admin", "node", "ls").out
    assert run in client.tp("admin", "node", "remove", "gpu-1", "--yes", code=1).err
    waiting = client.tp("submit", "first", *options, "--json").json["id"]
    out = next(client.console.storage.glob(f"projects/*/*/jobs/{run}/attempts/1/out"))
    (out / "go").touch()
    client.wait(run)
    expect(page.locator("#node-gpu-1 .callout.good")).to_contain_text("Drained")  # without loading the page again
    assert client.show(waiting)["phase"] == "queued"

    page.locator("#node-gpu-1").get_by_role("button", name="Use it again").click()
    expect(page.locator("#node-gpu-1 [data-state]")).to_have_count(0)
    client.tp("job", "cancel", waiting, "--yes")
    client.wait(waiting, "cancelled")
    client.tp("admin", "node", "cordon", "gpu-1", "--yes")
    expect(page.locator("#node-gpu-1 [data-state=cordoned]")).to_be_visible()
    page.emulate_media(color_scheme="dark")
    page.get_by_role("button", name="中文").click()
    expect(page.locator("#node-gpu-1 [data-state=cordoned]")).to_contain_text("已停止调度")
    answer(page, "remove")
    wait_until(
        "it is removed", lambda: client.tp("admin", "node", "show", "gpu-1", "--json").json["state"] == "removed"
    )
    assert USER in [row["actor"] for row in client.api("/audit")["items"] if row["action"] == "node.remove"]


def announce(client: Client, names: list[str]) -> None:
    """Machines that the console knows by their own word alone: at their addresses nobody answers."""
    with httpx2.Client(base_url=client.console.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as http:
        for place, name in enumerate(names):
            told = announcement(
                name,
                boot_id=f"boot-{name}",
                storage_root=str(client.console.storage),
                address=f"http://127.0.0.1:{place + 1}",
            )
            http.post(ANNOUNCE_PATH, json=told.to_json()).raise_for_status()


def test_of_many_machines_a_hundred_are_drawn_and_one_is_found_by_name(signed_in: Page, client: Client) -> None:
    names = [f"rack-{number:03d}" for number in range(105)]
    announce(client, names)
    page, boxes = signed_in, signed_in.locator(".machine-box")
    page.goto(f"{client.console.url}/queue")
    expect(boxes).to_have_count(100)
    expect(page.locator("#other-machines")).to_contain_text("100 of 105 machines are shown")
    page.get_by_role("link", name="Next machines").click()
    expect(boxes).to_have_count(5)
    expect(page.get_by_role("link", name="Previous machines")).to_be_visible()

    page.keyboard.press("/")
    page.keyboard.type("RACK-04")
    expect(boxes).to_have_count(10)
    page.wait_for_url("**/queue?machine=RACK-04")
    expect(page.locator("#machine")).to_be_focused()
    expect(page.locator("#machine")).to_have_value("RACK-04")
    page.locator("#machine").fill("nowhere")
    expect(page.locator("#no-machine")).to_contain_text("None of the 105 machines")
    page.get_by_role("button", name="中文").click()
    expect(page.locator("#no-machine")).to_contain_text("105 台机器")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
