"""`tp admin runtime ls`: what is shown. The real console is met in tests/tuneplane_server/runtimes."""

from __future__ import annotations

from typing import Any

from tests.tuneplane.cli.conftest import Tp
from tests.tuneplane.cli.scripted_console import API, ScriptedConsole
from tests.tuneplane.client.scripted_server import as_json


def runtime(runtime_id: str, **changes: Any) -> dict[str, Any]:
    image = {
        "form": "sif",
        "image": "/shared/trl.sif",
        "digest": "ab" * 32,
        "architecture": "amd64",
        "capabilities": [],
    }
    return {
        "runtime_id": runtime_id, "methods": ["trl/sft"], "images": [image | {"present": True, "line": 2}], "usable": True,
        "image": "/shared/trl.sif", "source": "registry", "why": "", "hint": "", **changes,
    }  # fmt: skip


def test_the_list_shows_what_runs_and_then_the_line_to_add(tp: Tp, signed_in: ScriptedConsole) -> None:
    cannot = runtime(
        "verl-0.9",
        images=[],
        usable=False,
        image=None,
        source=None,
        why="only as oci",
        hint="add\x1b sif: /path/to/x.sif",
    )
    problem = {"where": "/etc/runtimes.yaml:3", "text": "unknown key “sfi”", "hint": "did you mean “sif”?"}
    away = {"form": "sif", "image": "/data/x.sif", "present": False, "line": 9}
    bare = runtime("any-1", images=[away], image=None, source="catalog")
    items = [runtime("trl-1.16"), cannot, bare]
    found = {"executor": "slurm", "form": "sif", "file": "/etc/runtimes.yaml", "problems": [problem], "items": items}
    signed_in.server.answers[f"{API}/runtimes"] = as_json(found)
    out = tp("admin", "runtime", "ls").out
    lines = out.splitlines()
    assert "sif" in lines[0]
    assert "/etc/runtimes.yaml" in lines[0]
    assert lines[2].split()[:5] == ["trl-1.16", "yes", "sif", "amd64", "/shared/trl.sif"]
    assert lines[3].split()[:3] == ["verl-0.9", "no", "-"]
    assert "verl-0.9: only as oci" in out
    assert "sif: /path/to/x.sif" in out
    assert "/etc/runtimes.yaml:3: unknown key “sfi”" in out
    assert "any-1: /data/x.sif is not there on the console's machine (line 9" in out
    assert "\x1b" not in out
    assert tp("admin", "runtime", "ls", "--json").json == found
