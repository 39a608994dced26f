"""The package itself: the same files give the same bytes, the digest is that of the bytes, and nothing secret gets in."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import time
from pathlib import Path

import pytest

from tests.tuneplane.lab.conftest import LabOnDisk, refusals
from tuneplane.lab.experiments import Experiment
from tuneplane.lab.find import Lab
from tuneplane.lab.pack import write_package
from tuneplane.lab.plan import plan_package
from tuneplane.lab.secrets import OVERLAP, SecretScanner

# Put together here, so that no scanner takes this file for what it looks for.
HF = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ2bC4dF6h"
AWS = "AKIA" + "Q3EXB7ZKD52MPLRT"
GITHUB = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
OPENAI = "sk-" + "proj-aB3dE5gH7jK9mN1pQ3sT5vW7"
TUNEPLANE = "tp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ2bC4dF6hJ8kL0nP2r"
KEY = "-----BEGIN " + "OPENSSH PRIVATE KEY-----"


def pack(demo: LabOnDisk) -> tuple[bytes, str]:
    out = io.BytesIO()
    digest = write_package(plan_package(demo.lab, demo.experiment), out)
    return out.getvalue(), digest


def members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {info.name: info for info in archive.getmembers()}


def test_the_digest_is_that_of_the_bytes(demo: LabOnDisk) -> None:
    data, digest = pack(demo)
    assert hashlib.sha256(data).hexdigest() == digest
    assert set(members(data)) == {"tuneplane.yaml", "experiments/first/config.yaml"}


def test_the_same_tree_elsewhere_at_another_time_gives_the_same_digest(demo: LabOnDisk, tmp_path: Path) -> None:
    name = "common/" + "long" * 40 + "/文件.py"
    demo.write(name, "print(1)\n")
    first = pack(demo)[1]
    copy = LabOnDisk(tmp_path / "copy") if (tmp_path / "copy").mkdir() is None else None
    assert copy is not None
    copy.write(name, "print(1)\n")
    for path in copy.root.rglob("*"):
        os.utime(path, (time.time() - 1e6, time.time() - 1e6))
        path.chmod(0o700 if path.is_dir() else 0o600)
    assert pack(copy)[1] == first


def test_one_changed_byte_or_executable_bit_gives_another_digest(demo: LabOnDisk) -> None:
    script = demo.write("experiments/first/train.sh", "echo a\n")
    first = pack(demo)[1]
    script.chmod(0o755)
    second = pack(demo)[1]
    script.write_text("echo b\n")
    assert len({first, second, pack(demo)[1]}) == 3


def test_owners_times_and_modes_are_fixed(demo: LabOnDisk) -> None:
    demo.write("experiments/first/train.sh", "x").chmod(0o777)
    for name, info in members(pack(demo)[0]).items():
        assert (info.uid, info.gid, info.uname, info.gname, info.mtime) == (0, 0, "", "", 315532800)
        assert info.mode == (0o755 if name.endswith(".sh") else 0o644)
        assert info.isreg()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"token = '{HF}'", "Hugging Face"),
        (f"key: {AWS}", "AWS"),
        (f"x {GITHUB} y", "GitHub"),
        (f"OPENAI_API_KEY={OPENAI}", "API key"),
        (f"{TUNEPLANE}", "TunePlane"),
        (f"{KEY}\nabc", "private key"),
    ],
)
def test_secrets_are_refused_by_content_with_their_line_and_never_shown(demo: LabOnDisk, text: str, what: str) -> None:
    path = demo.write("common/notes.txt", f"one\ntwo\n{text}\n")
    (found,) = refusals(lambda: pack(demo))
    assert (found.code, found.line, found.file) == ("package-secret", 3, str(path))
    assert what in found.message
    for secret in (HF, AWS, GITHUB, OPENAI, TUNEPLANE):
        assert secret not in found.message + found.hint


@pytest.mark.parametrize(
    "text",
    [
        "hf_" + "x" * 34,
        "AKIA" + "X" * 16,
        "sk-" + "your-api-key-goes-here-please",
        "task-" + "a1b2c3d4e5f6g7h8i9j0k1l2m3n4",
        "hf_hub_download(repo_id)",
        "tp_size_of_the_tensor_parallel_group_of_this_model_here",
        "-----BEGIN CERTIFICATE-----",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5",
        f"{HF}  # tuneplane:allow-secret",
    ],
)
def test_what_only_looks_like_a_secret_is_packed(demo: LabOnDisk, text: str) -> None:
    demo.write("common/notes.txt", f"{text}\n")
    pack(demo)


def test_every_secret_of_every_file_is_told(demo: LabOnDisk) -> None:
    demo.write("common/a.txt", f"{HF}\n\n{AWS}\n")
    demo.write("common/b.txt", GITHUB)
    found = refusals(lambda: pack(demo))
    assert [(Path(item.file).name, item.line) for item in found] == [("a.txt", 1), ("a.txt", 3), ("b.txt", 1)]


@pytest.mark.parametrize("size", [1, 7, 64, 511, 512, 513, 4096])
def test_a_secret_split_over_chunks_is_found_once(size: int) -> None:
    text = ("\n" * 600 + "x" * OVERLAP + f" {HF}\n" + "y" * 700 + f"\n{KEY}\n").encode()
    scanner = SecretScanner()
    for start in range(0, len(text), size):
        scanner.feed(text[start : start + size])
    scanner.close()
    assert [(finding.what, finding.line) for finding in scanner.findings] == [
        ("a Hugging Face token", 601),
        ("a private key", 603),
    ]


def test_a_file_that_grows_shrinks_or_is_replaced_meanwhile_is_refused(demo: LabOnDisk) -> None:
    path = demo.write("common/data.txt", "12345")
    for change in (
        lambda: path.write_text("123456"),
        lambda: path.write_text("123"),
        lambda: (path.unlink(), path.write_text("12345")),
        lambda: (path.unlink(), path.symlink_to("/etc/passwd")),
        lambda: (path.unlink(), os.mkfifo(path)),
        lambda: path.unlink(),
    ):
        path.unlink(missing_ok=True)
        path.write_text("12345")
        planned = plan_package(demo.lab, demo.experiment)
        change()
        (found,) = refusals(lambda plan=planned: write_package(plan, io.BytesIO()))  # type: ignore[misc]
        assert found.code in ("package-mismatch", "file-missing")


def test_a_file_that_grows_while_it_is_read_is_refused(demo: LabOnDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    path = demo.write("common/data.txt", "12345")
    planned = plan_package(demo.lab, demo.experiment)
    feed = SecretScanner.feed

    def grow(self: SecretScanner, chunk: bytes) -> None:
        if chunk == b"12345":
            with path.open("a") as file:
                file.write("more")
        feed(self, chunk)

    monkeypatch.setattr(SecretScanner, "feed", grow)
    (found,) = refusals(lambda: write_package(planned, io.BytesIO()))
    assert found.code == "package-mismatch"


def test_two_experiments_share_nothing_but_what_is_shared(demo: LabOnDisk) -> None:
    demo.write("experiments/second/config.yaml", "max_steps: 8\n")
    other = Experiment("second", demo.root / "experiments/second")
    out = io.BytesIO()
    write_package(plan_package(Lab(demo.root, "demo"), other), out)
    assert set(members(out.getvalue())) == {"tuneplane.yaml", "experiments/second/config.yaml"}
