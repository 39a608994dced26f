"""Image references and the causes of a failed pull, by the engines' own words."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest

from tuneplane_node.engine.runtimes.images import pull_error, split_reference
from tuneplane_node.engine.runtimes.registry_login import RegistryLogins, registry_of

D = "sha256:" + "a429b" * 12 + "4040"


@pytest.mark.parametrize(("image", "expected"), [
    ("busybox", ("busybox", "latest")),
    ("busybox:1", ("busybox", "1")),
    ("127.0.0.1:5000/lab/trl", ("127.0.0.1:5000/lab/trl", "latest")),
    ("127.0.0.1:5000/lab/trl:2", ("127.0.0.1:5000/lab/trl", "2")),
    (f"registry.example/trl@{D}", ("registry.example/trl", D)),
    (f"registry.example:443/trl:3@{D}", ("registry.example:443/trl", D)),
])  # fmt: skip
def test_a_reference_is_split_as_engines_want_it(image: str, expected: tuple[str, str]) -> None:
    assert split_reference(image) == expected


@pytest.mark.parametrize(("message", "code"), [
    ("toomanyrequests: You have reached your pull rate limit. You may increase the limit by authenticating", "image-rate-limited"),
    ("initializing source docker://h/i:1: reading manifest 1 in h/i: received unexpected HTTP status: 429 Too Many Requests", "image-rate-limited"),
    ("failed to register layer: Error processing tar file(exit status 1): write /data: no space left on device", "image-disk-full"),
    ("write /var/lib/docker/tmp/GetImageBlob123: no space left on device", "image-disk-full"),
    ('Get "https://10.0.0.1:5000/v2/": x509: certificate signed by unknown authority', "image-tls"),
    ("failed to do request: tls: failed to verify certificate: x509: certificate has expired", "image-tls"),
    ('pinging container registry 127.0.0.1:5000: Get "https://127.0.0.1:5000/v2/": http: server gave HTTP response to HTTPS client', "image-tls"),
    ("unauthorized: authentication required", "image-unauthorized"),
    ('Head "http://127.0.0.1:5000/v2/i/manifests/1": no basic auth credentials', "image-unauthorized"),
    ("pull access denied for lab/private, repository does not exist or may require 'docker login': denied: requested access to the resource is denied", "image-unauthorized"),
    ("received unexpected HTTP status: 403 Forbidden", "image-unauthorized"),
    ("manifest for 127.0.0.1:5000/lab/trl:9 not found: manifest unknown: manifest unknown", "image-not-found"),
    ("reading manifest 9 in 127.0.0.1:5000/lab/trl: manifest unknown", "image-not-found"),
    ("repository name not known to registry / name unknown: repository name not known to registry", "image-not-found"),
    ("no matching manifest for linux/arm64 in the manifest list entries", "image-not-found"),
    ("invalid reference format: repository name must be lowercase", "image-not-found"),
    ("dial tcp: lookup registry.example on 10.0.0.2:53: no such host", "image-registry-unreachable"),
    ("dial tcp 127.0.0.1:9: connect: connection refused", "image-registry-unreachable"),
    ("net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)", "image-registry-unreachable"),
    ("unexpected EOF", "image-registry-unreachable"),
    ("the engine says something nobody has heard", "image-pull-failed"),
])  # fmt: skip
def test_a_failed_pull_has_the_cause_that_the_engine_named(message: str, code: str) -> None:
    problem = pull_error("registry.example/trl:1", message)
    assert problem.code == code
    assert problem.detail == message


def test_words_in_a_name_are_no_cause() -> None:
    image = "registry.example/unauthorized-certificate-429:1"
    message = f"manifest for {image} not found: manifest unknown"
    assert pull_error(image, message).code == "image-not-found"
    assert pull_error(f"r.example/i@{D}", f"manifest for r.example/i@{D} not found").code == "image-not-found"


@pytest.mark.parametrize(("image", "registry"), [
    ("busybox", "https://index.docker.io/v1/"), ("lab/trl:1", "https://index.docker.io/v1/"),
    ("docker.io/lab/trl", "https://index.docker.io/v1/"), ("localhost/x", "localhost"),
    ("127.0.0.1:5000/x:1", "127.0.0.1:5000"), ("registry.example/a/b@sha256:00", "registry.example"),
])  # fmt: skip
def test_the_registry_of_an_image(image: str, registry: str) -> None:
    assert registry_of(image) == registry


def sent(header: dict[str, str]) -> dict[str, str]:
    return dict(json.loads(base64.urlsafe_b64decode(header["X-Registry-Auth"])))


async def test_a_login_is_sent_to_its_own_registry_only(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    auth = base64.b64encode(b"me:pass:word").decode()
    config.write_text(
        json.dumps({"auths": {"https://registry.example": {"auth": auth}, "token.example": {"identitytoken": "t0"}}})
    )
    logins = RegistryLogins(config)
    assert sent(await logins.header("registry.example/trl:1")) == {
        "username": "me", "password": "pass:word", "serveraddress": "registry.example",
    }  # fmt: skip
    assert sent(await logins.header("token.example/trl")) == {"identitytoken": "t0", "serveraddress": "token.example"}
    assert await logins.header("other.example/trl:1") == {}


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "{",
        "[]",
        '{"auths": {"r.example": {"auth": "%%%"}}}',
        '{"auths": {"r.example": "x"}}',
        '{"credsStore": "no-such-helper"}',
    ],
)
async def test_a_login_file_that_cannot_be_used_gives_none(tmp_path: Path, content: str | None) -> None:
    config = tmp_path / "config.json"
    if content is not None:
        config.write_text(content)
    assert await RegistryLogins(config).header("r.example/trl:1") == {}


async def test_a_credential_helper_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "docker-credential-vault"
    helper.write_text(
        '#!/bin/sh\nread -r registry\necho "{\\"ServerURL\\": \\"$registry\\", \\"Username\\": \\"me\\", \\"Secret\\": \\"for-$registry\\"}"\n'
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"credHelpers": {"r.example": "vault"}}))
    logins = RegistryLogins(config)
    assert sent(await logins.header("r.example/trl:1"))["password"] == "for-r.example"
    assert await logins.header("other.example/trl:1") == {}
    helper.write_text("#!/bin/sh\necho 'credentials not found'\nexit 1\n")
    assert await logins.header("r.example/trl:1") == {}
