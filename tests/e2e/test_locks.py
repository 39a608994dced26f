"""A lock locks: one byte of a recipe changed on either side stops the submit, with the command that mends it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Answer, Client, Console
from tests.e2e.refusals import refused
from tests.services.session import ROOT

pytestmark = pytest.mark.timeout(300)
SOURCE = ROOT / "packages" / "tuneplane" / "src"
# An environment that may stand for TRL's as long as nothing is trained.
SETTINGS = {"TUNEPLANE_IMAGE_TRL": sys.prefix}
VICTIMS = [
    ("first", "trl/sft/recipe.yaml"),
    ("first", "trl/sft/template/train.py"),
    ("first", "trl/sft/template/data/train.jsonl"),
    ("plain", "custom/custom/template/train.sh"),
]
FIRST = ("submit", "first", "--profile", "cpu")
PLAIN = ("submit", "plain", "--profile", "cpu", "--observability-url", "https://curves.example.org/run")


@dataclass(frozen=True)
class Copy:
    """A copy of the client's source, which a client or a console can be made to run from."""

    root: Path

    @property
    def catalog(self) -> Path:
        return self.root / "tuneplane" / "recipes" / "catalog"

    @property
    def env(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.root)}

    @contextmanager
    def edited(self, name: str, change: Callable[[bytes], bytes] = lambda data: data[:-1] + b" ") -> Iterator[None]:
        """One file of the catalog with other bytes, its last one changed unless `change` says otherwise; as before afterwards."""
        path = self.catalog / name
        before = path.read_bytes()
        after = change(before)
        assert after != before
        assert len(after) == len(before)
        path.write_bytes(after)
        try:
            yield
        finally:
            path.write_bytes(before)

    @contextmanager
    def recompiled(self, name: str) -> Iterator[None]:
        """Another recipe in earnest: one byte changed, and the index compiled anew."""
        index = self.catalog / "index.json"
        before = index.read_bytes()
        with self.edited(name):
            subprocess.run(
                [sys.executable, "-m", "tuneplane.recipes.compile"],
                env=self.env, cwd=self.root, check=True, capture_output=True, timeout=60,
            )  # fmt: skip
            assert index.read_bytes() != before
            try:
                yield
            finally:
                index.write_bytes(before)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    root = tmp_path_factory.mktemp("copy") / "src"
    shutil.copytree(SOURCE, root)
    return Copy(root)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    running = Console(tmp_path_factory.mktemp("locks") / "console", SETTINGS).start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def prepared(console: Console, tmp_path_factory: pytest.TempPathFactory) -> Client:
    return lab(Client(tmp_path_factory.mktemp("prepared") / "client", console, console.add_user()))


@pytest.fixture
def client(prepared: Client, tmp_path: Path) -> Client:
    """A signed-in client with a lab of the test's own."""
    shutil.copytree(prepared.folder, tmp_path / "client")
    return replace(prepared, folder=tmp_path / "client")


def lab(client: Client) -> Client:
    """A lab with one experiment of TRL and one with nothing but a script."""
    client.prepare()
    client.new("first", "trl/sft")
    client.new("plain", "custom/custom")
    return client


def submission(name: str) -> tuple[str, ...]:
    return FIRST if name == "first" else PLAIN


def retitled(index: bytes) -> bytes:
    """The index with another byte in the title of trl/sft."""
    at = index.index(b'"trl/sft":')
    return index[:at] + index[at:].replace(b"Supervised fine-tuning", b"Supervised fine_tuning", 1)


def mend(client: Client, said: str) -> Answer:
    """Do what the hint says, which must be one command."""
    (command,) = re.findall(r"→ (tp .+)$", said, re.MULTILINE)
    return client.tp(*shlex.split(command)[1:])


def admitted(client: Client, name: str = "first") -> None:
    assert "── Admission\nadmitted" in client.tp(*submission(name), "--dry-run").out


def rewrite(client: Client, path: str, value: Any) -> None:
    """Set one value of the lock of `first` by hand."""
    file = client.lab / "experiments" / "first" / "recipe.lock.json"
    lock = json.loads(file.read_text())
    place = lock
    *parents, last = path.split(".")
    for name in parents:
        place = place[name]
    place[last] = value
    file.write_text(json.dumps(lock))


class TestClientSide:
    @pytest.mark.parametrize(("name", "victim"), VICTIMS)
    def test_one_byte_of_a_recipe_stops_the_submit(self, client: Client, copy: Copy, name: str, victim: str) -> None:
        changed = client.with_env(**copy.env)
        with copy.edited(victim):
            said = refused(changed, *submission(name), code="catalog-mismatch")
            assert "was changed" in said
            assert "make catalog" in said
            assert "[catalog-mismatch]" in changed.tp("validate", name, code=3).err
            assert (
                "[catalog-mismatch]"
                in changed.tp("new", "other", "--method", "/".join(victim.split("/")[:2]), code=3).err
            )
            assert not (client.lab / "experiments" / "other").exists()
        admitted(changed, name)

    def test_one_byte_of_the_compiled_manifest_stops_it_too(self, client: Client, copy: Copy) -> None:
        changed = client.with_env(**copy.env)
        with copy.edited("index.json", retitled):
            assert "index.json" in refused(changed, *FIRST, code="catalog-mismatch")

    def test_a_client_with_another_recipe_is_told_the_way_at_every_step(self, client: Client, copy: Copy) -> None:
        other = client.with_env(**copy.env)
        lock = client.lab / "experiments" / "first" / "recipe.lock.json"
        old = json.loads(lock.read_text())["recipe"]["template_digest"]
        with copy.recompiled("trl/sft/template/train.py"):
            shown = other.tp("recipe", "diff", "first", code=1)
            assert old in shown.out
            # Both reasons at once: the lock is not this client's, and this client's recipe will not be the console's.
            said = refused(other, *FIRST, code="lock-stale catalog-mismatch")
            assert f"recipe.template_digest: {old[:12]} → " in said
            assert "recipe.template_digest" in mend(other, said).out
            other.tp("validate", "first")

            new = json.loads(lock.read_text())["recipe"]
            assert new["template_digest"] != old
            said = refused(other, *FIRST, code="catalog-mismatch")
            assert new["digest"][:12] in said
            assert "tp recipe lock first" in said
            shown = other.tp("recipe", "diff", "first", "--with-console", code=1)
            assert (old in shown.out, new["template_digest"] in shown.out) == (True, True)
            assert "the console's catalog" in shown.out

            # From the client that fits the console, the same lock is the stale one.
            mend(client, refused(client, *FIRST, code="lock-stale"))
        admitted(client)


@pytest.fixture(scope="module")
def changed_console(copy: Copy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A console that runs from the copy."""
    running = Console(tmp_path_factory.mktemp("changed") / "console", SETTINGS | copy.env).start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def theirs(changed_console: Console, tmp_path_factory: pytest.TempPathFactory) -> Client:
    """A client that runs from the untouched source."""
    folder = tmp_path_factory.mktemp("theirs")
    return lab(Client(folder, changed_console, changed_console.add_user(), {"PYTHONPATH": str(SOURCE)}))


class TestConsoleSide:
    @pytest.mark.parametrize(("name", "victim"), VICTIMS)
    def test_one_byte_of_a_recipe_stops_the_submit(self, theirs: Client, copy: Copy, name: str, victim: str) -> None:
        admitted(theirs, name)
        with copy.edited(victim):
            said = refused(theirs, *submission(name), code="catalog-mismatch")
            assert "on the console's machine" in said
            assert "make catalog" in said
            with pytest.raises(AssertionError, match="on the console's machine"):
                theirs.console.admin("doctor")
        admitted(theirs, name)

    def test_a_console_with_another_recipe_says_what_differs(self, theirs: Client, copy: Copy) -> None:
        console = theirs.console
        mine = json.loads((theirs.lab / "experiments" / "first" / "recipe.lock.json").read_text())["recipe"]
        with copy.recompiled("trl/sft/template/train.py"):
            console.stop()
            console.start()
            said = refused(theirs, *FIRST, code="catalog-mismatch")
            offered = theirs.api("/catalog")["methods"]["trl/sft"]
            assert f"the server has 1.0 ({offered['digest'][:12]}), the client 1.0 ({mine['digest'][:12]})" in said
            assert "tp recipe lock first" in said
            shown = theirs.tp("recipe", "diff", "first", "--with-console", "--json", code=1).json
            assert shown["client"] == []
            assert {"what": "recipe.template_digest", "locked": mine["template_digest"], "catalog": offered["template_digest"]} in shown["console"]  # fmt: skip
            assert "differs" in theirs.tp("status").out
            admitted(theirs, "plain")  # what is the same on both sides goes on

            fitting = theirs.with_env(**copy.env)
            mend(fitting, refused(fitting, *FIRST, code="lock-stale"))
            admitted(fitting)
        console.stop()
        console.start()
        mend(theirs, refused(theirs, *FIRST, code="lock-stale"))
        admitted(theirs)


class TestHandEdited:
    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("recipe.digest", "0" * 64),
            ("recipe.template_digest", "0" * 64),
            ("recipe.version", "1.1"),
            ("framework.version", "1.17"),
            ("framework.runtime_id", "other-1"),
            ("bindings.entrypoint", "other.py"),
            ("bindings.params", {}),
            ("requires.core", "0.0.1"),
        ],
    )
    def test_an_edited_lock_is_refused_and_one_command_mends_it(self, client: Client, path: str, value: Any) -> None:
        rewrite(client, path, value)
        said = refused(client, *FIRST, code="lock-tampered")
        assert "edited by hand" in said
        assert "experiments/first/recipe.lock.json" in said
        assert path.partition(".params")[0] in client.tp("recipe", "diff", "first", code=1).out
        mend(client, said)
        client.tp("recipe", "diff", "first")

    @pytest.mark.parametrize("recipe", ["trl/sft", {"name": "trl/sft", "digest": "sha256:abc", "revision": 3}])
    def test_a_lock_of_an_earlier_client_is_recognised_and_mended(self, client: Client, recipe: Any) -> None:
        file = client.lab / "experiments" / "first" / "recipe.lock.json"
        file.write_text(json.dumps({"apiVersion": "forge/recipe-lock/v4", "recipe": recipe, "runtime": {"image": "x"}}))
        said = refused(client, *FIRST, code="lock-foreign")
        assert "earlier client (forge/recipe-lock/v4)" in said
        mend(client, said)
        assert json.loads(file.read_text())["apiVersion"] == "tuneplane/recipe-lock/v1"
        admitted(client)

    def test_a_lock_that_names_no_method_is_mended_with_the_method(self, client: Client) -> None:
        file = client.lab / "experiments" / "first" / "recipe.lock.json"
        for content in (b"", b"{", b"[]", b'{"apiVersion": "forge/recipe-lock/v4"}', None):
            file.unlink()
            if content is not None:
                file.write_bytes(content)
            code = "lock-missing" if content is None else "lock-foreign" if b"forge" in content else "lock-invalid"
            said = refused(client, *FIRST, code=code)
            assert "tp recipe lock first" in said
            if content is not None:
                assert "tp recipe lock first --method" in client.tp("recipe", "lock", "first", code=3).err
                assert file.read_bytes() == content
            client.tp("recipe", "lock", "first", "--method", "trl/sft")
            admitted(client)

    def test_in_chinese_it_says_the_same(self, client: Client) -> None:
        rewrite(client, "recipe.version", "1.1")
        said = refused(client.with_env(TUNEPLANE_LANG="zh-Hans"), *FIRST, code="lock-tampered")
        assert "锁" in said
        mend(client, said)
