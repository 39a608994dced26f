"""The machine's own figures from /proc and /sys. Blocking file work; a file that cannot be read leaves its figures out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

SECTOR = 512  # /proc/diskstats counts in these whatever the disk's own are
_TICKS = float(os.sysconf("SC_CLK_TCK"))


class MachineReader:
    """`proc` and `sys`: where the kernel's files are (others in tests). `disk`: a path on the file system that is watched."""

    def __init__(self, disk: Path, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        self._disk, self._proc, self._sys = disk, proc, sys

    def levels(self) -> dict[str, float]:
        """What is as it is now: `memory_used`, `disk_used`, in bytes."""
        return _all_of(self._memory, self._disk_used)

    def counts(self) -> dict[str, float]:
        """What only grows: `cpu_busy`, `cpu_all` (seconds over all cores), `disk_read`, `disk_write`, `net_in`, `net_out` (bytes)."""
        return _all_of(self._cpu, self._disks, self._network)

    def _cpu(self) -> dict[str, float]:
        fields = (self._proc / "stat").read_text().split("\n", 1)[0].split()[1:9]  # guest time is in user time already
        ticks = [int(field) for field in fields]
        idle = ticks[3] + ticks[4]  # waiting for a disk is idling
        return {"cpu_busy": (sum(ticks) - idle) / _TICKS, "cpu_all": sum(ticks) / _TICKS}

    def _memory(self) -> dict[str, float]:
        values = {}
        for line in (self._proc / "meminfo").read_text().splitlines():
            key, _colon, rest = line.partition(":")
            if key in ("MemTotal", "MemAvailable"):
                values[key] = float(rest.split()[0]) * 1024
        return {"memory_used": values["MemTotal"] - values["MemAvailable"]}

    def _disk_used(self) -> dict[str, float]:
        existing = next(path for path in (self._disk, *self._disk.parents) if path.exists())
        return {"disk_used": float(shutil.disk_usage(existing).used)}

    def _disks(self) -> dict[str, float]:
        """Of whole disks that have a device: partitions, RAID and LVM volumes would count the same bytes again."""
        read = written = 0
        for line in (self._proc / "diskstats").read_text().splitlines():
            fields = line.split()
            if (self._sys / "block" / fields[2] / "device").exists():
                read += int(fields[5])
                written += int(fields[9])
        return {"disk_read": float(read * SECTOR), "disk_write": float(written * SECTOR)}

    def _network(self) -> dict[str, float]:
        """Of the interfaces that have a device; inside a container, where none has, of all but the loopback."""
        found: dict[str, tuple[int, int]] = {}
        for line in (self._proc / "net" / "dev").read_text().splitlines()[2:]:
            name, _colon, rest = line.partition(":")
            fields = rest.split()
            found[name.strip()] = (int(fields[0]), int(fields[8]))
        real = [name for name in found if (self._sys / "class/net" / name / "device").exists()]
        counted = real or [name for name in found if name != "lo"]
        return {
            "net_in": float(sum(found[name][0] for name in counted)),
            "net_out": float(sum(found[name][1] for name in counted)),
        }


def _all_of(*readers: Callable[[], dict[str, float]]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for read in readers:
        try:
            figures |= read()
        except (OSError, ValueError, IndexError, KeyError, StopIteration):
            continue  # not on this kernel, or hidden from this container: the figure is not there
    return figures
