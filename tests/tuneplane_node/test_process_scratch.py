"""In process mode a job has a temporary directory of its own, which goes with it as a container's does."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.tuneplane_node.bench import Bench
from tests.tuneplane_node.test_process_runtime import started


def permissions(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_what_a_job_leaves_in_its_temporary_directory_goes_with_it(process_bench: Bench, tmp_path: Path) -> None:
    """Also when its first process was killed and could remove nothing."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    (temporary / "tp-of-somebody-else").mkdir()
    engine = process_bench.new_engine(host_env={**os.environ, "TMPDIR": str(temporary)})
    script = f"mkdir $TMPDIR/work; echo $TMPDIR >{process_bench.directory}/tmpdir; {process_bench.waiting_job()}"
    handle = await engine.launch(process_bench.request(script))
    await process_bench.exists("ready")
    scratch = Path((process_bench.directory / "tmpdir").read_text().strip())
    assert scratch.parent == temporary
    assert permissions(scratch) == 0o700
    assert (scratch / "work").is_dir()
    started(process_bench).leader.signal(signal.SIGKILL)
    assert await engine.cleanup(handle)
    assert [path.name for path in temporary.iterdir()] == ["tp-of-somebody-else"]


async def test_a_temporary_directory_of_the_job_s_own_choice_holds_its_files(
    process_bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "scratch").mkdir()
    script = f"echo $TMPDIR >{process_bench.directory}/tmpdir"
    handle = await process_bench.launch(script, env={"TMPDIR": str(tmp_path / "scratch")})
    await process_bench.ended(handle)
    assert Path((process_bench.directory / "tmpdir").read_text().strip()).parent == tmp_path / "scratch"
    assert await process_bench.engine.cleanup(handle)
    assert list((tmp_path / "scratch").iterdir()) == []


async def test_a_temporary_directory_that_cannot_be_made_holds_no_job_up(process_bench: Bench) -> None:
    handle = await process_bench.launch(f"echo $TMPDIR >{process_bench.directory}/tmpdir", env={"TMPDIR": "/not/there"})
    await process_bench.ended(handle)
    assert (process_bench.directory / "tmpdir").read_text() == "/not/there\n"
    assert await process_bench.engine.cleanup(handle)


async def test_a_link_in_place_of_the_temporary_directory_is_not_followed(process_bench: Bench, tmp_path: Path) -> None:
    temporary, precious = tmp_path / "tmp", tmp_path / "precious"
    temporary.mkdir()
    precious.mkdir()
    (precious / "kept").touch()
    engine = process_bench.new_engine(host_env={**os.environ, "TMPDIR": str(temporary)})
    handle = await engine.launch(process_bench.request(process_bench.waiting_job()))
    (scratch,) = temporary.iterdir()
    scratch.rmdir()
    scratch.symlink_to(precious)
    assert await engine.cleanup(handle)
    assert (precious / "kept").exists()


async def test_a_removal_that_was_cut_short_is_finished_with_its_temporary_files(
    process_bench: Bench, tmp_path: Path
) -> None:
    engine = process_bench.new_engine(host_env={**os.environ, "TMPDIR": str(tmp_path / "tmp")})
    (tmp_path / "tmp").mkdir()
    handle = await engine.launch(process_bench.request("exit 0"))
    await process_bench.ended(handle)
    root = process_bench.state_root / "processes"
    (root / handle.name).rename(root / f".gone-{handle.name}-1")  # and then it was killed
    assert await engine.owned() == []
    assert list(root.iterdir()) == []
    assert list((tmp_path / "tmp").iterdir()) == []
