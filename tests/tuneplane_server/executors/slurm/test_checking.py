"""Each thing that stands in the way of jobs on a Slurm cluster is one finding, and names its setting."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from tuneplane_server.domain.slurm_choices import Partitions, QosLevels, parse_partitions
from tuneplane_server.executors.port import Finding
from tuneplane_server.executors.slurm import checking
from tuneplane_server.executors.slurm.checking import findings
from tuneplane_server.executors.slurm.errors import meaning_of
from tuneplane_server.executors.slurm.rest.models import (
    Association,
    Health,
    Partition,
    SlurmError,
    SlurmNode,
    SlurmVersionError,
)
from tuneplane_server.slurm_settings import SlurmSettings

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
UP = frozenset({"UP"})


@dataclass
class Scripted:
    """What a cluster answers; an error is raised."""

    health_: Health | SlurmError
    partitions_: Sequence[Partition] | SlurmError = ()
    nodes_: Sequence[SlurmNode] = field(default_factory=tuple)
    associations_: Sequence[Association] | SlurmError | None = None
    reservations_: Sequence[str] = ()

    async def health(self) -> Health:
        if isinstance(self.health_, SlurmError):
            raise self.health_
        return self.health_

    async def partitions(self) -> list[Partition]:
        if isinstance(self.partitions_, SlurmError):
            raise self.partitions_
        return list(self.partitions_)

    async def nodes(self) -> list[SlurmNode]:
        return list(self.nodes_)

    async def reservations(self) -> list[str]:
        return list(self.reservations_)

    async def associations(self) -> list[Association] | None:
        if isinstance(self.associations_, SlurmError):
            raise self.associations_
        return None if self.associations_ is None else list(self.associations_)


def settings(**changes: object) -> SlurmSettings:
    whole = SlurmSettings(
        url="https://slurm.example.org:6820", user="trainer", token=SecretStr("x"), token_file=None, ca_file=None,
        container="apptainer", partitions=parse_partitions("main,h200=gpu"), account=None, qos=QosLevels(), reservation=None,
        time_limit_minutes=60, lost_after=timedelta(seconds=120),
    )  # fmt: skip
    return replace(whole, **changes)


def healthy(**changes: object) -> Health:
    return replace(Health("24.11.5", "v0.0.42", True, NOW + timedelta(days=30), NOW), **changes)


NODES = (
    SlurmNode("cpu1", "10.0.0.1", frozenset({"IDLE"}), partitions=("main",)),
    SlurmNode("gpu1", "10.0.0.2", frozenset({"MIXED"}), gpus={"nvidia_h200": 8}, partitions=("gpu",)),
)
PARTITIONS = (
    Partition("main", UP, max_minutes=600, nodes=("cpu1",), default=True),
    Partition("gpu", UP, max_minutes=None, nodes=("gpu1",)),
)


def well() -> Scripted:
    return Scripted(healthy(), PARTITIONS, NODES)


async def look(cluster: Scripted, slurm: SlurmSettings | None = None, root: Path = Path("/proc")) -> list[Finding]:
    return await findings(cluster, slurm or settings(), root, now=NOW)


def only(found: Sequence[Finding], code: str) -> Finding:
    (one,) = [finding for finding in found if finding.code == code]
    return one


async def test_a_cluster_as_the_settings_say_has_nothing_in_the_way() -> None:
    found = await look(well())
    assert {finding.level for finding in found} == {"info"}
    assert [finding.code for finding in found] == ["slurm", "slurm-token", "slurm-partition", "slurm-partition"]
    assert "24.11.5" in found[0].text
    assert "2026-12-30" in found[1].text


@pytest.mark.parametrize(
    ("error", "code", "said", "setting"),
    [
        (SlurmError("unreachable", "ConnectError: refused"), "slurm-unreachable", "slurm.example.org", "TUNEPLANE_SLURM_URL"),
        (SlurmError("unreachable", "CERTIFICATE_VERIFY_FAILED"), "slurm-unreachable", "slurm.example.org", "TUNEPLANE_SLURM_CA_FILE"),
        (SlurmError("auth", "Authentication failure", 1007), "slurm-token", "trainer", "TUNEPLANE_SLURM_TOKEN_FILE"),
        (SlurmError("refused", "no", 2002), "slurm-refused", "refuses", "TUNEPLANE_SLURM_USER"),
        (SlurmVersionError(["v0.0.35"], ["v0.0.38", "v0.0.42"]), "slurm-version", "v0.0.35", "slurmrestd"),
    ],
)  # fmt: skip
async def test_a_cluster_that_cannot_be_asked(error: SlurmError, code: str, said: str, setting: str) -> None:
    (finding,) = await look(Scripted(error))
    assert (finding.code, finding.level) == (code, "error")
    assert said in finding.text
    assert setting in finding.hint
    (later,) = [item for item in await look(Scripted(healthy(), error)) if item.level == "error"]
    assert later.code == code


def jwt(**claims: float) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.c2ln"


async def test_a_refused_token_that_has_expired_is_called_so(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(jwt(exp=(NOW - timedelta(hours=3)).timestamp()))
    refused = Scripted(SlurmError("auth", "Authentication failure", 1007))
    finding = only(await look(refused, settings(token=None, token_file=file)), "slurm-token-expired")
    assert "2026-11-30 09:00 UTC" in finding.text
    assert str(file) in finding.hint
    file.write_text(jwt(exp=(NOW + timedelta(hours=3)).timestamp()))
    only(await look(refused, settings(token=None, token_file=file)), "slurm-token")
    file.unlink()
    only(await look(refused, settings(token=None, token_file=file)), "slurm-token")


@pytest.mark.parametrize(
    ("life", "left", "code"),
    [
        (timedelta(days=30), timedelta(days=7), "slurm-token"),
        (timedelta(days=30), timedelta(days=5), "slurm-token-expiring"),  # a fifth are six days
        (timedelta(days=3), timedelta(hours=23), "slurm-token-expiring"),  # a long one should have a day left
        (timedelta(hours=1), timedelta(minutes=30), "slurm-token"),  # a short one is renewed in time all the same
        (timedelta(hours=1), timedelta(minutes=11), "slurm-token-expiring"),
        (None, timedelta(hours=25), "slurm-token"),
        (None, timedelta(hours=23), "slurm-token-expiring"),
        (timedelta(hours=1), timedelta(), "slurm-token-expired"),
    ],
)
async def test_the_end_of_the_token_is_told_before_it_bites(life: timedelta | None, left: timedelta, code: str) -> None:
    expires = NOW + left
    health = healthy(token_expires_at=expires, token_issued_at=None if life is None else expires - life)
    finding = only(await look(Scripted(health, PARTITIONS, NODES)), code)
    level = {"slurm-token": "info", "slurm-token-expiring": "warning", "slurm-token-expired": "error"}[code]
    assert finding.level == level
    assert ("TUNEPLANE_SLURM_TOKEN" in finding.hint) == (level != "info")


async def test_a_token_that_does_not_say_its_end_is_accepted() -> None:
    found = await look(Scripted(healthy(token_expires_at=None), PARTITIONS, NODES))
    assert "does not say" in only(found, "slurm-token").text


async def test_no_controller_is_an_error_and_nothing_more_is_asked() -> None:
    found = await look(Scripted(healthy(controllers_up=False), SlurmError("unreachable", "never asked")))
    assert only(found, "slurm-controller").level == "error"
    assert "slurm-token" not in {item.code for item in found}, "nobody has accepted it"


async def test_a_partition_that_is_not_there() -> None:
    found = await look(well(), settings(partitions=parse_partitions("big")))
    finding = only(found, "slurm-partition")
    assert finding.level == "error"
    assert "TUNEPLANE_SLURM_PARTITION" in finding.hint
    assert "gpu, main" in finding.hint


async def test_a_default_partition_that_slurm_does_not_tell_of_is_no_fault() -> None:
    cluster = Scripted(healthy(), [replace(partition, default=False) for partition in PARTITIONS], NODES)
    found = [item for item in await look(cluster, settings(partitions=Partitions())) if item.code == "slurm-partition"]
    assert [item.level for item in found] == ["info"]
    assert "TUNEPLANE_SLURM_PARTITION" in found[0].hint


async def test_slurms_default_partition_counts_when_the_settings_name_none() -> None:
    found = await look(well(), settings(partitions=parse_partitions("h200=gpu")))
    assert [item.text.split(":")[0] for item in found if item.code == "slurm-partition"] == [
        "partition gpu",
        "partition main",
    ]


async def test_a_partition_that_is_down_and_one_without_a_node_that_works() -> None:
    down = replace(PARTITIONS[0], states=frozenset({"DOWN"}))
    drained = replace(NODES[1], states=frozenset({"IDLE", "DRAIN"}), reason="broken fan")
    found = await look(Scripted(healthy(), [down, PARTITIONS[1]], [NODES[0], drained]))
    states = {item.level: item for item in found if item.code == "slurm-partition-down"}
    assert "main is DOWN" in states["error"].text
    assert "gpu1 DRAIN+IDLE (broken fan)" in states["warning"].detail


@pytest.mark.parametrize(
    ("kind", "fits"), [("h200", True), ("NVIDIA_H200", True), ("", True), ("a100", False), ("h2000", False)]
)
async def test_the_partition_of_a_profile_has_its_cards(kind: str, fits: bool) -> None:
    cluster = Scripted(healthy(), PARTITIONS, [NODES[0], replace(NODES[1], gpus={kind: 8})])
    found = [item for item in await look(cluster) if item.code == "slurm-partition-cards"]
    assert bool(found) is not fits
    for item in found:
        assert item.level == "error"
        assert kind in item.detail
        assert "TUNEPLANE_SLURM_PARTITION" in item.hint


async def test_the_profile_of_machines_without_cards_needs_none() -> None:
    found = await look(well(), settings(partitions=parse_partitions("cpu=main,h200=gpu")))
    assert {item.level for item in found} == {"info"}


@pytest.mark.parametrize(
    ("asked", "default", "most", "level"),
    [
        (60, 10, 600, None),
        (60, None, 30, "error"),
        (None, 10, 600, "warning"),
        (None, None, 600, "warning"),
        (None, None, None, None),
    ],
)
async def test_time_limits_that_would_refuse_or_cut_jobs(
    asked: int | None, default: int | None, most: int | None, level: str | None
) -> None:
    partition = replace(PARTITIONS[1], default_minutes=default, max_minutes=most, default=True)
    cluster = Scripted(healthy(), [partition], NODES)
    slurm = settings(partitions=parse_partitions("h200=gpu"), time_limit_minutes=asked)
    found = [item for item in await look(cluster, slurm) if item.code == "slurm-time-limit"]
    assert [item.level for item in found] == ([level] if level else [])
    assert all("TUNEPLANE_SLURM_TIME_LIMIT" in item.hint for item in found)


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"account": "small"}, None, ""),
        ({"account": "big"}, "slurm-account", "research, small"),
        ({"account": "small", "qos": QosLevels(((0, "normal"),))}, None, ""),
        ({"account": "small", "qos": QosLevels(((0, "normal"), (50, "high")))}, "slurm-qos", "normal"),
        ({"qos": QosLevels(((0, "normal"), (50, "high")))}, None, ""),
        ({"reservation": "mine"}, None, ""),
        ({"reservation": "theirs"}, "slurm-reservation", "mine"),
    ],
)
async def test_what_the_settings_book_on_is_known(changes: dict[str, object], code: str | None, said: str) -> None:
    cluster = well()
    cluster.associations_ = [Association("research", ("normal", "high")), Association("small", ("normal",))]
    cluster.reservations_ = ["mine"]
    found = [item for item in await look(cluster, settings(**changes)) if item.level != "info"]
    assert [item.code for item in found] == ([code] if code else [])
    for item in found:
        assert item.level == "error"
        assert f"TUNEPLANE_SLURM_{str(code).removeprefix('slurm-').upper()}" in item.hint
        assert said in item.hint


async def test_a_user_without_an_association_is_a_warning_and_silence_about_them_is_none() -> None:
    cluster = well()
    cluster.associations_ = []
    assert only(await look(cluster), "slurm-account").level == "warning"
    cluster.associations_ = SlurmError("refused", "not for you", 2002)
    assert only(await look(cluster), "slurm-accounting").level == "info"


async def test_a_storage_root_on_a_disk_of_the_console_is_told_unless_all_nodes_are_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:9 / /mnt rw - nfs4 nas:/x rw\n")
    monkeypatch.setattr(checking, "MOUNTINFO", mounts)
    assert "ext4" in only(await look(well(), root=Path("/data")), "slurm-storage-local").text
    assert "slurm-storage-local" not in {item.code for item in await look(well(), root=Path("/mnt/x"))}
    here = Scripted(healthy(), PARTITIONS, [replace(node, address="127.0.0.1") for node in NODES])
    assert "slurm-storage-local" not in {item.code for item in await look(here, root=Path("/data"))}


@pytest.mark.parametrize(
    ("code", "setting"),
    [(2000, "PARTITION"), (2014, "PARTITION"), (2045, "ACCOUNT"), (2051, "TIME_LIMIT"), (2053, "RESERVATION"), (2066, "QOS"), (9999, "PARTITION"), (None, "PARTITION")],
)  # fmt: skip
def test_every_refusal_names_a_setting(code: int | None, setting: str) -> None:
    assert f"TUNEPLANE_SLURM_{setting}" in meaning_of(SlurmError("refused", "no", code)).hint
