"""What is in a script, and what cannot be put into one."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneplane_node.engine import Mount
from tuneplane_server.executors.slurm.script import Part, Profile, ScriptError, ScriptRequest, read_bundle, render
from tuneplane_server.executors.slurm.script.template import fill, word

ROOT = Path("/srv/tuneplane")
REQUEST = ScriptRequest(
    job_id="j1",
    attempt=2,
    profile="apptainer",
    image="/images/trl.sif",
    capsule=ROOT / "attempts/2/capsule",
    slurm_dir=ROOT / "attempts/2/slurm",
    storage_root=ROOT,
    parts=(Part(2, 8), Part(1, 4)),
    environment_names=("TUNEPLANE_INGEST_TOKEN", "TUNEPLANE_ENV_GREETING"),
    read_only=(ROOT / "attempts/2/capsule",),
    writable=(ROOT / "attempts/2/out",),
    bundle={"root": {"path": "rootfs", "readonly": True}, "process": {"user": {"uid": 0}}, "hooks": {"prestart": []}},
)
PROFILES: tuple[Profile, ...] = ("apptainer", "enroot-pyxis", "oci")
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=60)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, max_size=8))
def test_any_text_is_one_word_of_a_shell(texts: list[str]) -> None:
    line = "printf '%s\\0' " + " ".join(fill("@TEXT@", TEXT=text) for text in texts)
    said = subprocess.run(["sh", "-c", line], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert said == ("".join(f"{text}\0" for text in texts) or "\0")


def test_a_value_that_looks_like_a_mark_stays_as_it_is() -> None:
    assert fill("@A@ @B@", {"B": "raw @A@"}, A="@B@") == "@B@ raw @A@"
    with pytest.raises(KeyError):
        fill("@MISSING@")
    assert word("plain") == "plain"


@pytest.mark.parametrize("profile", PROFILES)
def test_srun_is_the_only_word_of_slurm(profile: Profile) -> None:
    text = render(replace(REQUEST, profile=profile)).text
    assert re.search(r"\b(sbatch|scontrol|scancel|squeue|sinfo|salloc|sacct|ssh|scp)\b", text) is None
    assert text.startswith("#!/bin/sh\n")
    assert text.count("\nstart ") == 3


@pytest.mark.parametrize("profile", PROFILES)
def test_shells_can_read_it(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text(render(replace(REQUEST, profile=profile)).text)
    # SC3045: every sh in use has these letters of `ulimit`, and one that had not would change no limit.
    check = [_shellcheck(), "--severity=warning", "--shell=sh", "--exclude=SC3045"]
    for command in (["sh", "-n"], ["bash", "--posix", "-n"], check):
        done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_same_request_gives_the_same_script() -> None:
    assert render(REQUEST) == render(replace(REQUEST, environment_names=tuple(reversed(REQUEST.environment_names))))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parts": ()}, "at least one machine"),
        ({"parts": (Part(0, 1),)}, "at least one machine"),
        ({"environment_names": ("A B",)}, "cannot be the name of an environment variable"),
        ({"environment_names": ("A;reboot",)}, "cannot be the name of an environment variable"),
        ({"image": "/images/a:b.sif"}, "holds a colon"),
        ({"image": "docker.io/trl"}, "is no absolute path"),
        ({"writable": (Path("/srv/a,b"),)}, "the mount path '/srv/a,b' holds a colon, a comma"),
        ({"extra_mounts": (Mount("/a\nb", "/a"),)}, "holds a colon, a comma or a line end"),
        ({"profile": "enroot-pyxis", "writable": (Path("/srv/a b"),)}, "holds a blank, which enroot cannot mount"),
        ({"profile": "oci", "bundle": None}, "was not read"),
        ({"profile": "oci", "bundle": {}}, "is no OCI bundle configuration"),
    ],
)
def test_what_a_profile_cannot_express_is_said(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ScriptError, match=re.escape(words)):
        render(replace(REQUEST, **change))


def test_mounts_of_the_administrator_win() -> None:
    mounts = replace(REQUEST, extra_mounts=(Mount("/data", str(ROOT / "attempts/2/out"), read_only=True),)).mounts()
    assert Mount("/data", str(ROOT / "attempts/2/out"), read_only=True) in mounts
    assert len({mount.target for mount in mounts}) == len(mounts)


def test_a_bundle_is_read_from_its_directory(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="the console reads the bundle at the same path"):
        read_bundle(str(tmp_path))
    config = tmp_path / "config.json"
    config.write_text("{")
    with pytest.raises(ScriptError, match="is no JSON"):
        read_bundle(str(tmp_path))
    config.write_text("[]")
    with pytest.raises(ScriptError, match="is no OCI bundle configuration"):
        read_bundle(str(tmp_path))
    config.write_text('{"root": {"path": "rootfs"}}')
    assert read_bundle(str(tmp_path)) == {"root": {"path": "rootfs"}}


def test_hooks_and_users_of_a_bundle_stay() -> None:
    assert REQUEST.bundle is not None
    (text,) = render(replace(REQUEST, profile="oci")).files.values()
    assert '"hooks"' in text
    assert '"uid": 0' in text


def _shellcheck() -> str:
    return str(Path(sys.executable).parent / "shellcheck")
