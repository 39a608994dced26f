"""The static files: one hash in front of all, cached for good, and nothing on disk that nobody vendored."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.services.session import ROOT
from tuneplane_server.console.assets import StaticTree


@pytest.fixture
def tree(tmp_path: Path) -> StaticTree:
    (tmp_path / "js").mkdir()
    (tmp_path / "js/a.js").write_text("export const a = 1;\n" * 50)
    (tmp_path / "font.woff2").write_bytes(b"wOF2" + bytes(range(256)))
    (tmp_path / "notes.py").write_text("not served")
    return StaticTree(tmp_path)


@pytest.fixture
def client(tree: StaticTree) -> TestClient:
    return TestClient(Starlette(routes=[Route("/static/{digest}/{name:path}", tree.serve)]))


def test_the_current_address_is_cached_for_good(tree: StaticTree, client: TestClient) -> None:
    answer = client.get(tree.url("js/a.js"))
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"


def test_an_address_of_another_version_is_answered_and_not_cached(client: TestClient) -> None:
    answer = client.get("/static/0123456789abcdef/js/a.js")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-cache"


def test_text_is_compressed_where_the_browser_takes_it(tree: StaticTree, client: TestClient) -> None:
    plain = client.get(tree.url("js/a.js"), headers={"Accept-Encoding": "identity"})
    packed = client.get(tree.url("js/a.js"), headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content
    assert int(packed.headers["content-length"]) == len(gzip.compress(plain.content, mtime=0)) < len(plain.content)


def test_fonts_are_not_compressed_again(tree: StaticTree, client: TestClient) -> None:
    answer = client.get(tree.url("font.woff2"), headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in answer.headers


@pytest.mark.parametrize("name", ["nothing.js", "../assets.py", "%2e%2e/assets.py", "notes.py", "js/", ""])
def test_only_files_of_the_tree_are_served(tree: StaticTree, client: TestClient, name: str) -> None:
    assert client.get(f"/static/{tree.digest}/{name}").status_code == 404


def test_a_changed_file_changes_every_address(tree: StaticTree) -> None:
    (tree.directory / "js/a.js").write_text("export const a = 2;\n")
    assert StaticTree(tree.directory).url("font.woff2") != tree.url("font.woff2")


def test_an_address_for_a_missing_file_is_an_error(tree: StaticTree) -> None:
    with pytest.raises(KeyError):
        tree.url("js/b.js")


def test_vendored_files_are_the_recorded_ones() -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "scripts/vendor-assets", "--check"], check=False, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stderr
