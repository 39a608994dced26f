"""What the page about ingest shows can be posted by hand: to a real console, beside a real run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import LANGUAGES, blocks
from tests.e2e.harness import Client, Console, wait_until
from tests.services.session import ROOT

pytestmark = pytest.mark.timeout(300)
CONSOLE = "http://127.0.0.1:8642"
TRAIN = 'while [ ! -e "$TUNEPLANE_OUT_DIR/go" ]; do sleep 0.1; done\n'
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("ingest")
    console = Console(folder / "console").start()
    yield Client(folder / "reader", console, console.add_user()).prepare()
    console.stop()


@pytest.fixture(scope="module")
def run(client: Client) -> Iterator[str]:
    (client.new("waits", "custom/custom") / "train.sh").write_text(TRAIN)
    run = client.submit("waits", "--observability", "platform")
    wait_until("the trainer runs", lambda: client.show(run)["phase"] == "running")
    yield run
    next(client.console.storage.glob(f"projects/*/*/jobs/{run}/attempts/1/out")).joinpath("go").touch()
    assert client.wait(run)["phase"] == "succeeded"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_examples_post_what_they_say(client: Client, run: str, language: str, tmp_path: Path) -> None:
    page = ROOT / "docs" / language / "reference" / "ingest.md"
    (script,) = _PYTHON.findall(page.read_text(encoding="utf-8"))
    (tmp_path / "post.py").write_text(script, encoding="utf-8")
    lines = [line for block in blocks(page) for line in block.commands]
    typed = "set -eu\n" + "\n".join(lines).replace(CONSOLE, client.console.url).replace("/RUN/", f"/{run}/")
    env = client.env | {"API_TOKEN": client.token, "PATH": f"{Path(sys.executable).parent}:{client.env['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", typed], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rank = json.loads((tmp_path / "token.json").read_text())["rank"]
    from_script, from_curl = map(json.loads, done.stdout.splitlines())
    assert from_script == {"accepted": 1, "duplicate": 0, "ack": {f"1/{rank}/metric": 100}}
    assert from_curl == {"accepted": 1, "duplicate": 0, "ack": {f"1/{rank}/metric": 101}}
    metrics = client.tp("job", "metrics", run, "--rank", str(rank), "--json").json["metrics"]
    assert (metrics["validation/loss"]["count"], metrics["validation/loss"]["latest"]["value"]) == (101, "NaN")
    assert client.tp("job", "metrics", run, "--json").json["metrics"] == {}
