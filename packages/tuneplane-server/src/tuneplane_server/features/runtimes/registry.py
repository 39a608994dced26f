"""The runtime registry of this process: read at the start, and again whenever the file has changed.

A new version that cannot be used changes nothing: what the file said before goes on to count, and a finding says so until it is mended.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from contextlib import suppress
from pathlib import Path

import structlog

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane_server.domain.findings import RUNTIME_REGISTRY
from tuneplane_server.features.runtimes.entries import Registry
from tuneplane_server.features.runtimes.reading import parse_registry, read_bytes
from tuneplane_server.findings import Findings

log = structlog.get_logger(__name__)

LOOK_EVERY_SECONDS = 10.0
# A network filesystem that hangs must not hold up whoever submits: then what is known counts.
LONGEST_LOOK_SECONDS = 5.0

type _Stamp = tuple[int, int, int, int]


class RuntimeRegistry:
    """`file`: TUNEPLANE_RUNTIME_REGISTRY_FILE; None where there is none, and then it is empty for good."""

    def __init__(self, file: Path | None, findings: Findings) -> None:
        self.file = file
        self._findings = findings
        self._known: Registry | None = Registry() if file is None else None
        self._bad: bytes | None = None  # a version that cannot be used, to tell every reader in their own language why
        self._bad_read: RefusedError | None = None
        self._stamp: _Stamp | None = None
        self._looked_at = float("-inf")
        self._look: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Read the file as the console starts. Raises `RefusedError` with everything that is wrong with it."""
        if self.file is not None:
            await self._start_look()
            if self._known is None:
                raise await self._refusal()

    async def current(self, max_age: float = 0.0) -> Registry:
        """What counts now. `max_age`: seconds since the last look at the file that are soon enough.

        Raises `RefusedError` only where the file has never been usable.
        """
        if self.file is not None and (self._known is None or time.monotonic() - self._looked_at >= max_age):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._start_look(), LONGEST_LOOK_SECONDS)
        if self._known is None:
            raise await self._refusal()
        return self._known

    async def problems(self) -> list[Refusal]:
        """What is wrong with the file as it is now, in the reader's language; empty while it is what counts."""
        if self._bad is None and self._bad_read is None:
            return []
        return list((await self._refusal()).refusals)

    def start(self) -> None:
        """Look now and then, so that a bad version is found before somebody submits."""
        if self.file is not None:
            self._watch = asyncio.create_task(self._look_on(), name="runtime-registry")

    async def stop(self) -> None:
        tasks = [task for task in (self._watch, self._look) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._watch = self._look = None

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            await self._start_look()

    def _start_look(self) -> asyncio.Future[None]:
        """One look at a time, whoever asks; it goes on when whoever asked stops waiting."""
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._look_once())
        return asyncio.shield(self._look)

    async def _look_once(self) -> None:
        assert self.file is not None
        try:
            stamp, data = await asyncio.to_thread(_changed, self.file, self._stamp)
            if data is not None:
                self._take(await asyncio.to_thread(self._parsed, data), stamp)
        except RefusedError as error:
            self._stamp, self._bad_read = None, error
            self._tell(error.refusals[0].line)
        self._looked_at = time.monotonic()

    def _parsed(self, data: bytes) -> Registry | tuple[bytes, RefusedError]:
        assert self.file is not None
        if self._known is not None and hashlib.sha256(data).hexdigest() == self._known.digest:
            return self._known
        try:
            return parse_registry(data, self.file)
        except RefusedError as error:
            return data, error

    def _take(self, found: Registry | tuple[bytes, RefusedError], stamp: _Stamp) -> None:
        self._stamp, self._bad_read = stamp, None
        if isinstance(found, Registry):
            if self._known is not None and found is not self._known:
                log.info("the runtime registry was read anew", file=str(self.file), runtimes=len(found.runtimes))
            self._known, self._bad = found, None
            self._findings.clear(RUNTIME_REGISTRY)
            return
        self._bad, error = found
        self._tell(error.refusals[0].line)

    def _tell(self, line: int) -> None:
        if self._known is None:
            return  # whoever starts the console is told, or whoever asks
        if self._findings.put(RUNTIME_REGISTRY, {"where": f"{self.file}:{line}" if line else str(self.file)}):
            log.warning(
                "the runtime registry cannot be used; what it said before counts", file=str(self.file), line=line
            )

    async def _refusal(self) -> RefusedError:
        """What was found, said again in the language of whoever asks now."""
        assert self.file is not None
        found = self._bad_read or RefusedError([_not_read(self.file)])
        try:
            if self._bad is not None and self._bad_read is None:
                await asyncio.to_thread(parse_registry, self._bad, self.file)
            elif self._bad_read is not None:
                async with asyncio.timeout(LONGEST_LOOK_SECONDS):
                    await asyncio.to_thread(read_bytes, self.file)
        except TimeoutError:
            return found
        except RefusedError as error:
            return error
        return found  # mended meanwhile: the next look takes it up


def _not_read(file: Path) -> Refusal:
    return Refusal(
        "runtime-registry",
        _("has not been read yet"),
        _("its filesystem does not answer; it is looked at again and again"),
        file=str(file),
    )


def _changed(file: Path, known: _Stamp | None) -> tuple[_Stamp, bytes | None]:
    """The file's stamp, and its bytes when that is another one than `known`."""
    try:
        found = file.stat()
    except OSError:
        return (0, 0, 0, 0), read_bytes(
            file
        )  # which says why; where it is there after all, the next look has its stamp
    stamp = (found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns)
    return (stamp, None) if stamp == known else (stamp, read_bytes(file))
