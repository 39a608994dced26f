"""A registry that misbehaves on request: the pull protocol of the OCI distribution specification, nothing more.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md . A real registry cannot be made to limit, to hang
or to hold an image that is larger than a disk; where it can fail (404, 401) `test_real_registry.py` uses one.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import ssl
import tarfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.services.containers import _busybox_root

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


class Registry:
    """Repositories are named after their behaviour: good, large (32 MB that do not compress), missing, limited, hanging.
    With `locked` all of it wants the login me:secret."""

    def __init__(self, address: str, tls: ssl.SSLContext | None = None, *, locked: bool = False) -> None:
        self.locked = locked
        self.let_go = threading.Event()
        self.pulls: list[str] = []
        self._images = {"good": _image(_busybox_root()), "large": _image(_random_root(32))}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                registry.answer(self)

            do_HEAD = do_GET  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it overrides
                """Tests print nothing."""

        self._server = ThreadingHTTPServer((address, 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.host = f"{address}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def reference(self, repository: str) -> str:
        return f"{self.host}/{repository}:1"

    def close(self) -> None:
        self.let_go.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        if self.locked and request.headers.get("Authorization") != "Basic bWU6c2VjcmV0":
            _refuse(request, 401, "UNAUTHORIZED", "authentication required")
            return
        if request.path == "/v2/":
            _reply(request, 200, b"{}")
            return
        _, _, repository, kind, reference = request.path.split("/", 4)
        if repository == "limited":
            _refuse(request, 429, "TOOMANYREQUESTS", "too many requests to this registry")
        elif repository == "hanging":
            self.let_go.wait(120)
        elif repository not in self._images:
            _refuse(request, 404, "MANIFEST_UNKNOWN", "manifest unknown")
        else:
            self._serve(request, self._images[repository], kind, reference)

    def _serve(
        self, request: BaseHTTPRequestHandler, image: dict[str, tuple[str, bytes]], kind: str, reference: str
    ) -> None:
        if kind == "manifests" and request.command == "GET":
            self.pulls.append(request.path)
        found = image.get("manifest" if kind == "manifests" else reference)
        if found is None:
            _refuse(request, 404, "BLOB_UNKNOWN", "blob unknown")
        else:
            _reply(request, 200, found[1], found[0])


@contextmanager
def serving(
    address: str = "127.0.0.1", tls: ssl.SSLContext | None = None, *, locked: bool = False
) -> Iterator[Registry]:
    registry = Registry(address, tls, locked=locked)
    try:
        yield registry
    finally:
        registry.close()


def _reply(request: BaseHTTPRequestHandler, status: int, body: bytes, kind: str = "application/json") -> None:
    request.send_response(status)
    request.send_header("Content-Type", kind)
    request.send_header("Content-Length", str(len(body)))
    request.send_header("Docker-Distribution-Api-Version", "registry/2.0")
    if kind == MANIFEST:
        request.send_header("Docker-Content-Digest", _digest(body))
    if status == 429:
        request.send_header("Retry-After", "0")  # Podman waits for minutes otherwise before it tells
    if status == 401:
        request.send_header("WWW-Authenticate", 'Basic realm="test"')
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)


def _refuse(request: BaseHTTPRequestHandler, status: int, code: str, message: str) -> None:
    _reply(request, status, json.dumps({"errors": [{"code": code, "message": message}]}).encode())


def _image(root: bytes) -> dict[str, tuple[str, bytes]]:
    """Content by digest, and the manifest under `manifest`."""
    layer = gzip.compress(root, 1)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            # Its own in every registry, so that no other test's container has the same image.
            "config": {"Env": ["PATH=/usr/bin:/bin", f"MADE={uuid.uuid4().hex}"], "Cmd": ["/bin/sh"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(root)]},
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "size": len(config), "digest": _digest(config)},
            "layers": [{"mediaType": LAYER, "size": len(layer), "digest": _digest(layer)}],
        }
    ).encode()
    return {
        "manifest": (MANIFEST, manifest),
        _digest(manifest): (MANIFEST, manifest),
        _digest(config): (CONFIG, config),
        _digest(layer): (LAYER, layer),
    }


def _random_root(mebibytes: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo("data")
        info.size = mebibytes * 1024 * 1024
        tar.addfile(info, io.BytesIO(os.urandom(info.size)))
    return buffer.getvalue()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
