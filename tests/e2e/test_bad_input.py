"""Bad input of every kind against a real console: one clear message, the right exit code, nothing half-written."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Client, Console, wait_until
from tests.e2e.refusals import Untouched, codes, refuse, refused
from tests.services.ports import free_port

pytestmark = pytest.mark.timeout(300)
SUBMIT = ("submit", "first", "--profile", "cpu")
CHINESE = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """One console for all: nothing that is refused may change it. It has eight invented cards."""
    folder = tmp_path_factory.mktemp("bad-input")
    # An environment that may stand for TRL's, as no job gets as far as that.
    settings = {"TUNEPLANE_SIMULATED_GPUS": "h200:8", "TUNEPLANE_IMAGE_TRL": sys.prefix}
    console = Console(folder / "console", settings).start()
    client = Client(folder / "client", console, console.add_user()).prepare()
    client.new("first", "trl/sft")
    yield client
    assert client.api("/jobs")["items"] == []
    assert "Traceback" not in console.log()
    console.stop()


@pytest.fixture
def client(prepared: Client, tmp_path: Path) -> Client:
    """The same person with a lab to break."""
    shutil.copytree(prepared.folder, tmp_path / "client", symlinks=True)
    return replace(prepared, folder=tmp_path / "client")


def config(client: Client) -> Path:
    return client.lab / "experiments" / "first" / "config.yaml"


PROFILES = [
    ("h200:0", "profile-invalid", "at least 1", "至少为 1"),
    ("H200:4", "profile-unknown", "did you mean “h200”?", "是不是想写“h200”？"),
    ("h200:12", "pool-impossible", "multiple of 8", "8 的整数倍"),
    ("h200:٤", "profile-invalid", "“٤” is not a number of GPUs in ASCII digits", "“٤”不是用 ASCII 数字写的 GPU 数"),
    ("=h200", "profile-invalid", "not a list of roles", "不是角色列表"),
    ("h200:16", "pool-impossible", "at most 8 GPUs", "最多申请 8 张 GPU"),
    ("cpu:2", "profile-invalid", "the profile cpu has no GPUs", "cpu"),
    ("h" * 300, "profile-invalid", "hhh…", "hhh…"),
]


@pytest.mark.parametrize(("profile", "code", "english", "chinese"), PROFILES, ids=[item[0][:9] for item in PROFILES])
def test_a_profile_that_cannot_be(prepared: Client, profile: str, code: str, english: str, chinese: str) -> None:
    language, words = ("zh-Hans", chinese) if profile in ("h200:0", "H200:4", "h200:٤") else ("en", english)
    said = refused(prepared.with_env(TUNEPLANE_LANG=language), "submit", "first", "--profile", profile, code=code)
    assert words in said
    assert len(said) < 600


def test_pools_and_roles_that_do_not_fit(prepared: Client) -> None:
    said = refused(
        prepared, "submit", "first", "-p", "train=h200:4", "-p", "rollout=h200:4", code="pool-heterogeneous roles-invalid"
    )  # fmt: skip
    assert "kuberay and slurm" in said
    assert "roles of trl/sft: train" in said


@pytest.mark.parametrize("language", ["en", "zh-Hans"])
def test_everything_that_is_not_there_is_told_at_once(prepared: Client, language: str) -> None:
    answer = refuse(
        prepared.with_env(TUNEPLANE_LANG=language), *SUBMIT, "--image", "nope:1", "--train-data", "ann/none@1",
        "--validation-data", "/nowhere/rows.jsonl", "--model", "/nowhere/model", "--volume", "ann/none",
        "--init-from", f"run/{'0' * 16}/checkpoint", "--secret", "HF_TOKEN",
    )  # fmt: skip
    places = re.findall(r"^- ([\w.]+): .*\[([a-z-]+)\]$", answer.err, re.MULTILINE)
    assert sorted(places) == [
        ("spec.data.train.dataset", "data-missing"),
        ("spec.data.validation.path", "data-missing"),
        ("spec.data.volumes.0", "data-missing"),
        ("spec.framework", "runtime-form"),
        ("spec.model.base", "model-missing"),
        ("spec.model.init_from", "model-missing"),
        ("spec.secrets", "secret-missing"),
    ]
    assert all(bool(CHINESE.search(line)) is (language == "zh-Hans") for line in reasons(answer.err))


def reasons(text: str) -> list[str]:
    """The lines of a refusal that hold sentences, not only a command to type."""
    return [
        line for line in text.splitlines() if line.strip() and not line.startswith(("  → tp ", "package:", "作业包"))
    ]


def test_options_of_the_wrong_form_are_told_at_once(prepared: Client) -> None:
    answer = refuse(
        prepared, *SUBMIT, "--model", "hf:a b", "--train-data", "chats", "--image", "untagged", "--label", "x",
        "--env", "TUNEPLANE_RUN_ID=1", "--set", "learning_rat=1", "--set", "seed=nan", "--set", "learning_rate=inf",
        "--set", "max_steps=1.5", "--max-duration", "soon", "--retries", "luck=1", "--name", "n" * 300,
        "--observability-url", "ftp://x",
    )  # fmt: skip
    assert sorted(codes(answer.err)) == sorted(
        [
            "model-missing",
            "data-missing",
            "spec-invalid",
            "request-invalid",
            "env-reserved",
            "param-unknown",
            "param-type",
            "number-not-finite",
            "param-type",
            "limit-invalid",
            "limit-invalid",
            "spec-invalid",
            "observability-url",
        ]
    )
    assert "did you mean “learning_rate”?" in answer.err


CONFIG = """\
learning_rat: 1.0e-4
max_steps: many
seed: 1.5
warmup_steps: .nan
learning_rate: -1
model_name_or_path: gpt2
output_dir: /tmp/elsewhere
lr_scheduler_type: cosin
packing: "yes"
max_length: .inf
per_device_train_batch_size: 0
"""
LINES = [
    (1, "param-unknown"), (2, "param-type"), (3, "param-type"), (4, "number-not-finite"), (5, "param-range"),
    (6, "key-platform-owned"), (7, "key-platform-owned"), (8, "param-choice"), (9, "param-type"),
    (10, "number-not-finite"), (11, "param-range"),
]  # fmt: skip


@pytest.mark.parametrize("language", ["en", "zh-Hans"])
def test_every_wrong_key_of_the_config_is_told_with_its_line(client: Client, language: str) -> None:
    config(client).write_text(CONFIG)
    reader = client.with_env(TUNEPLANE_LANG=language)
    for arguments in (("validate", "first"), SUBMIT):
        said = refuse(reader, *arguments).err
        found = re.findall(r"^- experiments/first/config\.yaml:(\d+): .*\[([a-z-]+)\]$", said, re.MULTILINE)
        assert sorted((int(line), code) for line, code in found) == LINES, said
        assert "learning_rate" in said
        assert "--model" in said
        assert all(bool(CHINESE.search(line)) is (language == "zh-Hans") for line in reasons(said)), said


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("a: [\n", "yaml-invalid", "config.yaml:2: is not YAML"),
        ("seed: 1\nseed: 2\n", "yaml-invalid", "first in line 1"),
        ("- a\n- b\n", "config-invalid", "keys and values"),
        ("defaults: [../../../outside.yaml]\n", "config-invalid", "outside the lab"),
        ("defaults: [config.yaml]\n", "config-cycle", "circle"),
    ],
)
def test_a_config_that_cannot_be_read(client: Client, text: str, code: str, words: str) -> None:
    config(client).write_text(text)
    assert words in refused(client, *SUBMIT, code=code)


@pytest.mark.parametrize(
    ("marker", "code", "words"),
    [
        ("a: [\n", "yaml-invalid", "tuneplane.yaml:2"),
        ("apiVersion: tuneplane/project/v1\n", "lab-invalid", "name"),
        ("apiVersion: tuneplane/project/v1\nname: ../up\n", "lab-invalid", "tuneplane.yaml:2"),
        ("", "lab-invalid", "tuneplane/project/v1"),
    ],
)
def test_a_broken_marker(client: Client, marker: str, code: str, words: str) -> None:
    (client.lab / "tuneplane.yaml").write_text(marker)
    assert words in refused(client, *SUBMIT, code=code)


@pytest.mark.parametrize("language", ["en", "zh-Hans"])
def test_outside_of_a_lab(prepared: Client, tmp_path: Path, language: str) -> None:
    answer = prepared.with_env(TUNEPLANE_LANG=language).tp(*SUBMIT, cwd=tmp_path, code=3)
    assert codes(answer.err) == ["lab-not-found"]
    assert "tp init" in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["名字", "n" * 300, "..", "../up", "a b"])
def test_a_name_that_cannot_be_one(prepared: Client, name: str) -> None:
    said = refused(prepared, "new", name, "--method", "trl/sft", code="name-invalid")
    assert "1 to 63" in said
    assert len(said) < 400


def test_names_of_what_is_not_there(prepared: Client) -> None:
    assert "did you mean “trl/sft”?" in refused(prepared, "new", "x", "--method", "trl/sftt", code="method-unknown")
    assert "tp ls" in refused(prepared, "submit", "other", "-p", "cpu", code="experiment-not-found")
    assert "名字" in refused(prepared, "submit", "名字", "-p", "cpu", code="name-invalid")
    assert "tp job ls" in refuse(prepared, "job", "show", "0" * 16, exit_code=1).err
    assert "no run id" in refuse(prepared, "job", "show", "../../etc", exit_code=2).err
    assert "full run id" in refuse(prepared, "job", "cancel", "0000", exit_code=2).err


@pytest.mark.parametrize(("arguments", "words"), [
    (("sumbit",), "tp submit"),
    (("submit", "first", "--profil", "cpu"), "--profile"),
    (("job", "logs", "0" * 16, "--tail", "many"), "whole number"),
    ((*SUBMIT, "--priority", "1e3"), "whole number"),
    ((*SUBMIT, "--memory-gb", "nan"), "finite"),
    (("job", "ls", "--phase", "done"), "succeeded"),
])  # fmt: skip
def test_a_wrong_command_line(prepared: Client, arguments: tuple[str, ...], words: str) -> None:
    assert words in refuse(prepared, *arguments, exit_code=2).err


class TestSignIn:
    def test_not_signed_in_is_four(self, client: Client) -> None:
        shutil.rmtree(client.folder / "home")
        said = refuse(client, *SUBMIT, exit_code=4).err
        assert "tp login" in said
        assert "Traceback" not in said
        assert not (client.folder / "home").exists()

    def test_a_token_that_is_none_is_four_and_changes_nothing(self, client: Client) -> None:
        stranger = client.with_env(TUNEPLANE_TOKEN="tp_" + "x" * 40)
        assert "tp login" in refuse(stranger, *SUBMIT, exit_code=4).err
        untouched = Untouched(client)
        assert (
            "does not accept this token"
            in client.tp("login", client.console.url, "--token-stdin", text="x\n", code=4).err
        )
        assert "token" in client.tp("login", client.console.url, "--token-stdin", text="a b\n", code=2).err
        untouched.check()

    def test_what_is_wrong_here_comes_before_the_sign_in(self, client: Client) -> None:
        shutil.rmtree(client.folder / "home")
        assert codes(refuse(client, "submit", "first", "-p", "h200:0").err) == ["profile-invalid"]


class TestPackage:
    def test_links_out_secrets_and_two_gigabytes_are_told_at_once(self, client: Client) -> None:
        common = client.lab / "common"
        (common / "passwd").symlink_to("/etc/passwd")
        (common / ".netrc").write_text("machine x login y password z\n")
        with (common / "weights.bin").open("wb") as file:
            file.truncate(2 * 1024**3)
        said = refuse(client, *SUBMIT).err
        assert sorted(codes(said)) == ["package-link", "package-secret", "package-too-large"]
        for name in ("common/passwd", "common/.netrc", "common/weights.bin"):
            assert name in said
        assert "root:" not in said

    def test_a_secret_in_a_file_is_told_with_its_line_and_not_shown(self, client: Client) -> None:
        secret = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ2bC4dF6h"
        (client.lab / "common" / "notes.md").write_text(f"first\ntoken: {secret}\n")
        said = refuse(client, *SUBMIT).err
        assert codes(said) == ["package-secret"]
        assert "common/notes.md:2" in said
        assert secret not in said


# What else can be found at the console's address: path -> (status, kind, body).
STRANGERS = {
    "html": (200, "text/html", b"<html><body>Welcome to the proxy</body></html>"),
    "fault": (500, "text/plain", b"Internal Server Error"),
    "empty": (200, "application/json", b""),
    "list": (200, "application/json", b"[1, 2]"),
    "broken": (200, "application/json", b'{"items": [' + b"x" * 100),
}


class Stranger(BaseHTTPRequestHandler):
    def answer(self) -> None:
        status, kind, body = STRANGERS[self.path.split("/")[1]]
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it has above
        """Says nothing."""


for method in ("GET", "HEAD", "POST", "PUT"):
    setattr(Stranger, f"do_{method}", Stranger.answer)


class TestConsoleAway:
    @pytest.fixture
    def stranger(self) -> Iterator[str]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()
        server.server_close()

    @pytest.mark.parametrize("kind", sorted(STRANGERS))
    def test_what_answers_is_no_console(self, prepared: Client, stranger: str, kind: str) -> None:
        lost = prepared.with_env(TUNEPLANE_TOKEN="t")
        said = refuse(lost, *SUBMIT, "--server", f"{stranger}/{kind}", exit_code=5).err
        assert f"{stranger}/{kind}" in said
        assert len(said.splitlines()) <= 3
        assert "Welcome to the proxy" not in said

    def test_nobody_answers(self, prepared: Client) -> None:
        url = f"http://127.0.0.1:{free_port()}"
        said = refuse(prepared.with_env(TUNEPLANE_TOKEN="t"), *SUBMIT, "--server", url, exit_code=5).err
        assert url in said

    def test_the_console_hangs(self, prepared: Client) -> None:
        untouched = Untouched(prepared)
        with stopped(prepared.console):
            answer = prepared.with_env(TUNEPLANE_HTTP_TIMEOUT="1").tp(*SUBMIT, code=5)
        assert prepared.console.url in answer.err
        assert "did not answer in time" in answer.err
        untouched.check()


@contextmanager
def stopped(console: Console) -> Iterator[None]:
    """The console's process does not move."""
    assert console.process is not None
    os.kill(console.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(console.process.pid, signal.SIGCONT)
        wait_until("the console answers again", console._up)


class TestWire:
    """What no client of ours sends."""

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            (b"", "request-invalid"),
            (b"{", "request-invalid"),
            (b"\xff\xfe", "request-invalid"),
            (b"[]", "spec-invalid"),
            (b'"x"', "spec-invalid"),
            (b'{"apiVersion": NaN}', "spec-invalid"),
            (b'{"surprise": 1}', "spec-invalid spec-unknown-field"),
            (b"[" * 100_000, "request-invalid"),
            (b'{"a":' * 200 + b"1" + b"}" * 200, "spec-invalid"),
        ],
    )
    def test_a_body_that_is_no_jobspec(self, prepared: Client, body: bytes, code: str) -> None:
        status, problem = post(prepared, "/jobs", body)
        assert status in (400, 422)
        found = {problem["code"], *(item["code"] for item in problem["refusals"])}
        assert found <= {*code.split(), "number-not-finite"}, problem
        assert problem["detail"]
        assert prepared.api("/jobs")["items"] == []

    def test_a_body_that_is_too_large_is_refused_before_it_is_read(self, prepared: Client) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", prepared.console.port, timeout=60)
        connection.putrequest("POST", "/api/v1/jobs")
        headers = {
            "Authorization": f"Bearer {prepared.token}",
            "Content-Type": "application/json",
            "Content-Length": "900000000",
        }
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(b'{"a": "')
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["code"]) == (413, "too-large")
        connection.close()

    def test_nobody_may_ask_without_a_token(self, prepared: Client) -> None:
        status, problem = post(replace(prepared, token="tp_" + "x" * 40), "/jobs", b"{}")
        assert status == 401
        assert problem["hint"]

    @pytest.mark.parametrize(
        "path", ["/jobs/..%2f..%2fetc", "/jobs/%00", "/jobs/" + "x" * 3000, "/jobs/名字", "/catalog/a/b"]
    )
    def test_an_address_that_leads_nowhere(self, prepared: Client, path: str) -> None:
        request = urllib.request.Request(
            prepared.console.url + "/api/v1" + urllib.parse.quote(path, safe="/%"),
            headers={"Authorization": f"Bearer {prepared.token}"},
        )
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(request, timeout=60)
        assert raised.value.code in (400, 404, 414, 422)
        assert json.loads(raised.value.read())["code"]


def post(client: Client, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
    """(status, problem) of a call that must fail."""
    request = urllib.request.Request(
        f"{client.console.url}/api/v1{path}",
        data=body,
        headers={"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"},
        method="POST",
    )
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(request, timeout=60)
    assert raised.value.headers["content-type"] == "application/problem+json"
    return raised.value.code, json.loads(raised.value.read())


@pytest.mark.parametrize("language", ["en", "zh-Hans"])
def test_what_is_wrong_here_and_there_is_told_in_one_answer(client: Client, language: str) -> None:
    """A lock, a key, a value, a profile, an image, data, a secret file: seven rooms of the code, one list."""
    config(client).write_text("learning_rat: 1\n")
    lock = client.lab / "experiments" / "first" / "recipe.lock.json"
    lock.write_text(lock.read_text().replace('"version": "1.0"', '"version": "0.9"'))
    (client.lab / "common" / "id_rsa").write_text("x")
    said = refuse(
        client.with_env(TUNEPLANE_LANG=language), "submit", "first", "-p", "h200:12", "--set", "seed=nan",
        "--image", "nope:1", "--train-data", "ann/none@1",
    ).err  # fmt: skip
    assert sorted(codes(said)) == [
        "data-missing", "lock-tampered", "package-secret", "param-type", "param-unknown", "pool-impossible", "runtime-form",
    ]  # fmt: skip
    assert all(bool(CHINESE.search(line)) is (language == "zh-Hans") for line in reasons(said)), said
