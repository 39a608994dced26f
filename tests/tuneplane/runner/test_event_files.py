"""TensorBoard event files: what the real writers wrote (make_event_files.py), growing, damaged, in many folders."""

from __future__ import annotations

import math
import shutil
import struct
from pathlib import Path

import pytest

from tuneplane.runner import limits
from tuneplane.runner.tails.event_protobuf import BadEventError, read_event
from tuneplane.runner.tails.growing import GrowingFile
from tuneplane.runner.tails.scalars import Scalars
from tuneplane.runner.tails.tensorboard import TensorboardTail
from tuneplane.runner.tails.tfrecords import RecordTail, masked_crc32c

Point = tuple[str, int, float]


def points(tail: TensorboardTail, final: bool = False) -> list[Point]:
    return [(name, one.step, value) for one in scalars(tail, final) for name, value in one.values.items()]


def scalars(tail: TensorboardTail, final: bool = False) -> list[Scalars]:
    return [one for one in tail.scalars(9.0, final) if one is not None]


def test_what_torch_writes(event_files: Path) -> None:
    tail = TensorboardTail(str(event_files / "torch"))
    found = scalars(tail)
    assert [one.time for one in found][:5] == [1764000000.0 + step for step in range(5)]
    values = {(name, one.step): value for one in found for name, value in one.values.items()}
    assert math.isnan(values.pop(("train/nan", 1)))
    assert values.pop(("train/inf", 1)) == -math.inf
    for step in range(5):
        assert values.pop(("train/loss", step)) == pytest.approx(1 / (step + 1))
    assert values == {
        ("train/tensor", 7): 0.25,
        ("both_train/both", 3): 1.0,
        ("both_validation/both", 3): 2.0,
        ("hp/hparam/acc", 0): 0.5,
    }, "histograms, texts and hyperparameters are no scalars; other folders name themselves"
    assert tail.bad == 0
    assert points(tail) == []


def test_what_tensorboardx_and_tensorflows_form_write(event_files: Path) -> None:
    assert points(TensorboardTail(str(event_files / "tensorboardx"))) == [
        ("eval/acc", 0, 0.0),
        ("eval/acc", 1, 0.25),
        ("eval/acc", 2, 0.5),
        ("named", 9, 3.5),
    ]
    assert points(TensorboardTail(str(event_files / "tensor"))) == [
        ("epoch_loss", step, 0.5 + step) for step in range(3)
    ]


def test_a_file_that_grows_byte_by_byte_gives_every_point_once(tmp_path: Path, event_files: Path) -> None:
    (source,) = (event_files / "tensorboardx").iterdir()
    data = source.read_bytes()
    growing = tmp_path / "growing" / source.name
    growing.parent.mkdir()
    growing.touch()
    tail, found = TensorboardTail(str(growing.parent)), []
    for size in range(len(data) + 1):
        growing.write_bytes(data[:size])  # the same beginning: no reason to start anew
        found += points(tail)
    assert found == points(TensorboardTail(str(event_files / "tensorboardx")))
    assert tail.bad == 0


def record(data: bytes) -> bytes:
    header = struct.pack("<Q", len(data))
    return header + struct.pack("<I", masked_crc32c(header)) + data + struct.pack("<I", masked_crc32c(data))


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def event(tag: str, step: int, value: bytes) -> bytes:
    return field(2, step % 2**64) + field(5, field(1, field(1, tag.encode()) + value))


def simple(tag: str, step: int, value: float) -> bytes:
    return event(tag, step, varint(2 << 3 | 5) + struct.pack("<f", value))


def tensor(dtype: int, *parts: bytes) -> bytes:
    return event("t", 1, field(8, field(1, dtype) + b"".join(parts)))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (tensor(1, field(5, struct.pack("<f", 0.5))), 0.5),  # packed
        (tensor(1, varint(5 << 3 | 5) + struct.pack("<f", 0.5)), 0.5),  # not packed
        (tensor(2, field(6, struct.pack("<d", 0.1))), 0.1),
        (tensor(3, field(7, varint(2**64 - 7))), -7),
        (tensor(9, field(10, 12)), 12),
        (tensor(10, field(11, 1)), 1),
        (tensor(19, field(13, struct.unpack("<H", struct.pack("<e", 1.5))[0])), 1.5),
        (tensor(14, field(13, 0x3FC0)), 1.5),
        (tensor(14, field(4, b"\xc0\x3f")), 1.5),
        (tensor(2, field(4, struct.pack("<d", 0.1))), 0.1),
        (tensor(23, field(4, struct.pack("<Q", 2**63))), 2.0**63),
        (tensor(1, field(5, struct.pack("<2f", 1, 2))), None),  # two elements
        (tensor(1, field(4, struct.pack("<2f", 1, 2))), None),
        (tensor(1), None),  # none
        (tensor(7, field(8, b"text")), None),
        (tensor(8, field(4, b"12345678")), None),  # complex
        (event("t", 1, field(9, field(1, field(1, b"pr_curves"))) + field(8, field(1, 1) + field(5, struct.pack("<f", 1)))), None),
    ],
)  # fmt: skip
def test_tensors_of_one_number(message: bytes, expected: float | None) -> None:
    assert read_event(message).values.get("t") == expected


@pytest.mark.parametrize(
    "message",
    [b"\xff", b"\x0b", b"\x2a\x05abc", b"\x10" + b"\xff" * 11, b"\x2a\x02\x0a\x05", field(5, field(1, field(1, b"t") + field(8, field(1, 1) + field(5, b"abc"))))],
)  # fmt: skip
def test_what_is_no_event_is_named_as_such(message: bytes) -> None:
    with pytest.raises(BadEventError):
        read_event(message)


def name(second: int) -> str:
    return f"events.out.tfevents.{second:010d}.host"


def test_damage_costs_what_is_damaged(tmp_path: Path) -> None:
    good = [record(simple("a", step, step / 2)) for step in range(4)]
    broken = bytearray(good[1])
    broken[-6] ^= 1
    (tmp_path / name(1)).write_bytes(good[0] + bytes(broken) + good[2] + record(b"\xff") + good[3])
    (tmp_path / name(2)).write_bytes(b"no event file at all")
    tail = TensorboardTail(str(tmp_path))
    assert points(tail) == [("a", 0, 0.0), ("a", 2, 1.0), ("a", 3, 1.5)]
    assert tail.bad == 3


def test_pictures_are_passed_over_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TFRECORD_BYTES", 100)
    path = tmp_path / name(1)
    path.write_bytes(record(simple("a", 1, 1.0)) + record(b"x" * 1000) + record(simple("a", 2, 2.0)))
    tail = RecordTail(str(path))
    assert len(list(tail.records())) == 2
    assert (tail.too_long, tail.damaged) == (1, 0)


def test_the_checksum_of_a_long_record_counts_when_it_holds_a_scalar(tmp_path: Path) -> None:
    histogram = event("h", 1, field(5, b"x" * 10_000))
    scalar = event("padded", 1, varint(2 << 3 | 5) + struct.pack("<f", 1.0) + field(7, b"x" * 10_000))
    damaged = [bytearray(record(message)) for message in (histogram, scalar)]
    for one in damaged:
        one[-100] ^= 1
    (tmp_path / name(1)).write_bytes(b"".join(map(bytes, damaged)) + record(scalar))
    tail = TensorboardTail(str(tmp_path))
    assert points(tail) == [("padded", 1, 1.0)]
    assert tail.bad == 1


def test_the_oldest_folder_is_the_run_and_new_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TAIL_LOOK_SECONDS", 0.0)
    run = tmp_path / "runs/Nov29_host"
    run.mkdir(parents=True)
    tail = TensorboardTail(str(tmp_path))
    assert points(tail) == []
    (run / name(5)).write_bytes(record(simple("loss", 1, 1.0)))
    assert points(tail) == [("loss", 1, 1.0)]
    for second, folder in ((6, run), (6, run / "loss_val"), (7, tmp_path / "eval"), (8, tmp_path)):
        folder.mkdir(exist_ok=True)
        (folder / name(second)).write_bytes(record(simple("loss", 2, 2.0)))
    assert {named for named, _, _ in points(tail)} == {"loss", "loss_val/loss", "eval/loss", "other/loss"}


def test_a_file_that_is_removed_and_written_anew(tmp_path: Path) -> None:
    path = tmp_path / name(1)
    path.write_bytes(record(simple("a", 1, 1.0)))
    tail = TensorboardTail(str(tmp_path))
    assert points(tail) == [("a", 1, 1.0)]
    path.unlink()
    assert points(tail) == []
    path.write_bytes(record(simple("a", 2, 2.0)))
    assert points(tail) == [("a", 2, 2.0)]


def test_what_came_just_before_a_file_was_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name(1)
    path.write_bytes(record(b"one"))
    looked = GrowingFile.replaced

    def replaced(file: GrowingFile) -> bool:
        monkeypatch.setattr(GrowingFile, "replaced", looked)
        with path.open("ab") as still_open:
            path.rename(tmp_path / "kept")
            path.write_bytes(record(b"three"))
            still_open.write(record(b"two"))
        return file.replaced()

    monkeypatch.setattr(GrowingFile, "replaced", replaced)
    assert list(RecordTail(str(path)).records()) == [b"one", b"two", b"three"]


def test_steps_and_times_that_are_none(tmp_path: Path) -> None:
    late = varint(1 << 3 | 1) + struct.pack("<d", math.inf)
    (tmp_path / name(1)).write_bytes(
        record(simple("a", -3, 1.0)) + record(simple("a", 2**62, 1.0)) + record(late + simple("a", 5, 1.0))
    )
    tail = TensorboardTail(str(tmp_path))
    assert [(one.step, one.time) for one in scalars(tail)] == [(-3, 9.0), (5, 9.0)]
    assert tail.bad == 1


def test_a_tree_without_end_is_not_walked_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TAIL_ENTRIES", 5)
    for number in range(20):
        (tmp_path / f"f{number}").touch()
    tail = TensorboardTail(str(tmp_path))
    assert points(tail) == []
    assert tail.too_many
    shutil.rmtree(tmp_path)
    assert points(tail, final=True) == []
