"""Unpacking what came over the network."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

import pytest

from tests.tuneplane.runner.job_folder import file_member, make_archive, make_package
from tuneplane.runner.failures import StartError
from tuneplane.runner.package import unpack_package


def unpack(tmp_path: Path, content: bytes, **limits: int) -> Path:
    path = tmp_path / "package"
    path.write_bytes(content)
    unpack_package(str(path), hashlib.sha256(content).hexdigest(), str(tmp_path / "lab"), **limits)
    return tmp_path / "lab"


def member(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    return info, b""


def test_files_directories_modes_and_inner_links(tmp_path: Path) -> None:
    script = file_member("experiments/a/run.sh", "hi")
    script.mode = 0o4777
    links = [member("common/here", tarfile.SYMTYPE, "../experiments/a"), member("all", tarfile.SYMTYPE, ".")]
    lab = unpack(tmp_path, make_archive([(script, b"hi"), *links, member("empty", tarfile.DIRTYPE)]))
    assert (lab / "common/here/run.sh").read_text() == "hi"
    assert (lab / "empty").is_dir()
    assert (lab / "experiments/a/run.sh").stat().st_mode & 0o7777 & ~0o022 == 0o755, "no set-uid, but executable"


@pytest.mark.parametrize(
    "members",
    [
        [member("/etc/evil")],
        [member("../evil")],
        [member("a/../../evil")],
        [member("a//b")],
        [member("link", tarfile.SYMTYPE, "/etc/passwd")],
        [member("a/link", tarfile.SYMTYPE, "../../evil")],
        [member("x/y", tarfile.SYMTYPE, ".."), member("z", tarfile.SYMTYPE, "x/y/../..")],
        [member("hard", tarfile.LNKTYPE, "/etc/passwd")],
        [member("device", tarfile.CHRTYPE)],
        [member("pipe", tarfile.FIFOTYPE)],
        [member("twice"), member("twice")],
        [member("file"), member("file/below")],
    ],
)
def test_what_leads_out_is_refused(tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    with pytest.raises(StartError) as refused:
        unpack(tmp_path, make_archive(members))
    assert refused.value.code == "package-corrupt"
    outside = [path for path in tmp_path.iterdir() if path.name not in ("lab", "package")]
    assert outside == []


def test_a_file_is_never_written_through_a_link(tmp_path: Path) -> None:
    """The link comes first in the archive and last on disk."""
    (tmp_path / "elsewhere").mkdir()
    entries = [member("d", tarfile.SYMTYPE, "e"), (file_member("d/file", "x"), b"x"), member("e", tarfile.DIRTYPE)]
    with pytest.raises(StartError):
        unpack(tmp_path, make_archive(entries))
    assert not (tmp_path / "lab/e/file").exists()


@pytest.mark.parametrize("limits", [{"max_files": 2}, {"max_bytes": 10}])
def test_counts_and_sizes_are_bounded(tmp_path: Path, limits: dict[str, int]) -> None:
    with pytest.raises(StartError, match="more than"):
        unpack(tmp_path, make_package({"a": "12345", "b": "12345", "c": "1"}), **limits)


def test_another_digest_is_refused_before_anything_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "package"
    path.write_bytes(make_package({"a": "1"}))
    with pytest.raises(StartError, match="digest"):
        unpack_package(str(path), "0" * 64, str(tmp_path / "lab"))
    assert not (tmp_path / "lab").exists()


@pytest.mark.parametrize("content", [b"", b"not gzip", make_package({"a": "x" * 5000})[:-40]])
def test_no_archive_is_corrupt(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(StartError) as refused:
        unpack(tmp_path, content)
    assert refused.value.code == "package-corrupt"


def test_a_missing_package_is_the_storages_fault(tmp_path: Path) -> None:
    with pytest.raises(StartError) as refused:
        unpack_package(str(tmp_path / "none"), "0" * 64, str(tmp_path / "lab"))
    assert refused.value.code == "storage-failed"
    assert list(tmp_path.iterdir()) == []
