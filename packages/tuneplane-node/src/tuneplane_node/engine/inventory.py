"""What this machine has: CPUs, memory, disk and GPUs, real ones through nvidia-smi or invented ones."""

from __future__ import annotations

import asyncio
import csv
import os
import platform
import re
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from tuneplane.i18n import _
from tuneplane_node.engine.problems import Finding, NodeError, finding

NVIDIA_SMI_SECONDS = 20.0  # without persistence mode each call wakes every card
MAX_SIMULATED = 1024

_QUERY = "index,uuid,name,memory.total,driver_version"
_SIMULATED = re.compile(r"([a-z0-9][a-z0-9._-]{0,62}):([0-9]{1,4})\Z", re.ASCII)
_SERIES = re.compile(r"\b(rtx pro|rtx|gtx)?[ -]?((?:gb|gh|[abhlptv])?\d{1,4}[a-z]*)(?: (super|ti|ada))?\b")
_CPUINFO_MODEL = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Gpu:
    """One card. `series` is what profiles are named after (`h200`); `name` is the vendor's. Memory in bytes or None."""

    index: int
    series: str
    name: str
    memory_bytes: int | None
    uuid: str | None
    driver: str | None
    simulated: bool


@dataclass(frozen=True)
class Inventory:
    """A machine at one moment; sizes in bytes. `disk` is the file system of the engine's state."""

    hostname: str
    architecture: str
    kernel: str
    cpu_model: str
    cpus: int
    memory_bytes: int
    memory_available_bytes: int
    disk_bytes: int
    disk_free_bytes: int
    gpus: tuple[Gpu, ...]
    findings: tuple[Finding, ...]

    @property
    def simulated(self) -> bool:
        return any(gpu.simulated for gpu in self.gpus)


async def take_inventory(state_root: Path, simulated: tuple[Gpu, ...] = ()) -> Inventory:
    """Look at the machine. With invented cards the real ones are left alone and not listed."""
    if simulated:
        gpus, findings = simulated, [finding("gpu-simulated", count=len(simulated))]
    else:
        gpus, findings = await _real_gpus()
    memory = await asyncio.to_thread(_memory)
    disk = await asyncio.to_thread(shutil.disk_usage, _existing(state_root))
    return Inventory(
        hostname=socket.gethostname(),
        architecture=platform.machine(),
        kernel=platform.release(),
        cpu_model=await asyncio.to_thread(_cpu_model),
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=memory["MemTotal"],
        memory_available_bytes=memory["MemAvailable"],
        disk_bytes=disk.total,
        disk_free_bytes=disk.free,
        gpus=gpus,
        findings=tuple(findings),
    )


def parse_simulated(text: str) -> tuple[Gpu, ...]:
    """Invented cards from `h200:8` or `h200:8,h100:4`; indexes count through. Empty text gives none."""
    gpus: list[Gpu] = []
    for part in filter(None, (piece.strip().lower() for piece in text.split(","))):
        match = _SIMULATED.match(part)
        if match is None or not 0 < int(match[2]) <= MAX_SIMULATED - len(gpus):
            raise NodeError(
                "setting-invalid", setting="TUNEPLANE_SIMULATED_GPUS", value=part[:80], form="h200:8,h100:4"
            )
        series = match[1]
        gpus += [
            Gpu(len(gpus) + number, series, f"simulated {series}", None, None, None, simulated=True)
            for number in range(int(match[2]))
        ]
    return tuple(gpus)


def series_of(name: str) -> str:
    """The short name of a card's kind: `NVIDIA H100 80GB HBM3` -> `h100`, `NVIDIA GeForce RTX 4090` -> `rtx4090`."""
    text = name.lower().replace("nvidia", " ").replace("tesla", " ").replace("geforce", " ").replace("quadro", " ")
    match = _SERIES.search(text)
    if match is None:
        return re.sub(r"[^a-z0-9]+", "-", text).strip("-") or "gpu"
    return "".join(part for part in match.groups() if part).replace(" ", "")


async def _real_gpus() -> tuple[tuple[Gpu, ...], list[Finding]]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return (), []
    process = await asyncio.create_subprocess_exec(
        program,
        f"--query-gpu={_QUERY}",
        "--format=csv,noheader,nounits",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(NVIDIA_SMI_SECONDS):
            output, errors = await process.communicate()
    except TimeoutError:
        process.kill()  # one stuck in the driver may not even die; it is not waited for
        return (), [
            finding("gpu-query-failed", _("no answer within {seconds:.0f} s").format(seconds=NVIDIA_SMI_SECONDS))
        ]
    text = output.decode(errors="replace")
    if process.returncode:
        return (), [finding("gpu-query-failed", (text + errors.decode(errors="replace")).strip())]
    try:
        return parse_nvidia_smi(text), []
    except ValueError as problem:
        return (), [finding("gpu-query-failed", f"{problem}: {text[:500]}")]


def parse_nvidia_smi(text: str) -> tuple[Gpu, ...]:
    """Cards from `nvidia-smi --query-gpu=index,uuid,name,memory.total,driver_version --format=csv,noheader,nounits`."""
    gpus = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        if not row:
            continue
        if len(row) != len(_QUERY.split(",")):
            raise ValueError(f"unexpected line of {len(row)} fields")
        index, uuid, name, mebibytes, driver = (cell.strip() for cell in row)
        # Cards that share the host's memory (Grace, Jetson) answer [N/A] or [Not Supported].
        memory = int(mebibytes) * 1024 * 1024 if mebibytes.isdecimal() else None
        gpus.append(Gpu(int(index), series_of(name), name, memory, uuid, driver, simulated=False))
    return tuple(sorted(gpus, key=lambda gpu: gpu.index))


def _memory() -> dict[str, int]:
    values = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        key, _, rest = line.partition(":")
        values[key] = int(rest.split()[0]) * 1024
    return values


def _cpu_model() -> str:
    match = _CPUINFO_MODEL.search(Path("/proc/cpuinfo").read_text(errors="replace"))
    return match[1].strip() if match else platform.processor()


def _existing(path: Path) -> Path:
    return next(candidate for candidate in (path, *path.parents) if candidate.exists())
