"""Records of a growing TFRecord file: `uint64 length, uint32 masked crc32c(length), data, uint32 masked crc32c(data)`, little
endian (tensorboard 2.21, `tensorboard/summary/writer/record_writer.py`; the mask is `tensorflow/core/lib/hash/crc32c.h`'s)."""

from __future__ import annotations

import struct
from typing import Callable, Iterator, List

from tuneplane.runner import limits
from tuneplane.runner.tails.growing import GrowingFile

_HEADER = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reversed
_MASK_DELTA = 0xA282EAD8
_SHORT_BYTES = 4096


class RecordTail:
    """`damaged` counts records whose checksum is wrong; behind a length that is wrong nothing more can be found in the file.
    `too_long` counts records that are passed over unread: pictures and graphs; no scalar is that long. A long record that is not
    `wanted` is given unchecked: checksums take a second for 10 MB here, and histograms are many."""

    def __init__(self, path: str, wanted: Callable[[bytes], bool] = lambda record: True) -> None:
        self._wanted = wanted
        self.damaged = 0
        self.too_long = 0
        self._file = GrowingFile(path)
        self._lost = False

    def records(self, final: bool = False) -> Iterator[bytes]:
        """Records that are complete and were not given before; half a record waits for its rest. `final`: nothing else does."""
        file = self._file
        if not file.open():
            return
        yield from self._new_records(final)
        if file.replaced():
            yield from self._new_records(final=True)  # what came between the reading and the look
            file.close()
            self._lost = False
            if file.open():
                yield from self._new_records(final)

    def _new_records(self, final: bool) -> Iterator[bytes]:
        file = self._file
        if file.begun_anew(final):
            self._lost = False
        while not self._lost:
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size:
                return
            length, checksum = _HEADER.unpack(header)
            if masked_crc32c(header[:8]) != checksum:
                self.damaged += 1
                self._lost = True
                return
            whole = _HEADER.size + length + _CRC.size
            if file.size() < file.offset + whole:
                return
            if length > limits.TFRECORD_BYTES:
                self.too_long += 1
                file.skip(whole)
                continue
            data = file.read(whole)[_HEADER.size :]
            if len(data) < length + _CRC.size:
                return
            file.skip(whole)
            record, checksum = data[:length], _CRC.unpack(data[length:])[0]
            if (length > _SHORT_BYTES and not self._wanted(record)) or masked_crc32c(record) == checksum:
                yield record
            else:
                self.damaged += 1


def masked_crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def _table() -> List[int]:
    table: List[int] = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ _POLYNOMIAL if byte & 1 else byte >> 1
        table.append(byte)
    return table


_TABLE = _table()
