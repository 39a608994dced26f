"""Everything of a job that goes to the console: spool, recorder, shipper, heartbeat, wired together."""

from __future__ import annotations

import os
from functools import partial
from typing import Callable, Dict, Mapping, Optional

from tuneplane.contract.words import ENV_INGEST_TOKEN, ENV_INGEST_URL
from tuneplane.runner import limits
from tuneplane.runner.capsule import Capsule
from tuneplane.runner.cursor import Cursor
from tuneplane.runner.heartbeat import Heartbeat
from tuneplane.runner.output import OutputQueue
from tuneplane.runner.recorder import Recorder
from tuneplane.runner.redaction import Redactor, redacted_chunks, secrets_of
from tuneplane.runner.shipper import Shipper
from tuneplane.runner.spool import Spool
from tuneplane.runner.wire import IngestClient

_INGEST_PATH = "/ingest/v1/jobs/"


class Reporting:
    """Without a token or a usable URL everything stays in the spool, for the engine to send later."""

    def __init__(self, capsule: Capsule, rank: int, environ: Mapping[str, str], on_cancel: Callable[[], None]) -> None:
        self.redactor = Redactor(secrets_of(environ, capsule.secrets))
        self.output = OutputQueue(redact=partial(redacted_chunks, self.redactor))
        self.spool = Spool(capsule.spool_dir, capsule.attempt, rank, _spool_bytes(environ))
        self.recorder = Recorder(self.spool, self.output, self._poke, self.redactor)
        self._shipper: Optional[Shipper] = None
        self._heartbeat: Optional[Heartbeat] = None
        token = environ.get(ENV_INGEST_TOKEN, "")
        url = ingest_base(environ.get(ENV_INGEST_URL) or str(capsule.ingest.get("url", "")), capsule.job_id)
        try:
            if not token:
                raise ValueError(f"{ENV_INGEST_TOKEN} is not set")
            self._shipper = Shipper(
                Cursor(self.spool.directory), IngestClient(url, token), capsule.attempt, self.recorder.say
            )
            seconds = float(capsule.ingest.get("heartbeat_seconds", 5.0))
            client = IngestClient(url, token)
            self._heartbeat = Heartbeat(client, capsule.attempt, rank, seconds, on_cancel, self._shipper.set_token)
        except ValueError as error:
            self.recorder.say(f"nothing is sent to the console: {error}")

    def start(self) -> None:
        self.recorder.start()
        if self.redactor.too_short:
            names = ", ".join(self.redactor.too_short)
            self.recorder.warn(
                "secret-too-short",
                f"shorter than {limits.SECRET_LEAST} characters and therefore not redacted where they are printed: {names}",
            )
        if self._shipper is not None and self._heartbeat is not None:
            self._shipper.start()
            self._heartbeat.start()

    def state(self, state: str) -> None:
        """`preparing`, `running` or `draining`, for the next heartbeat."""
        if self._heartbeat is not None:
            self._heartbeat.state = state

    def drain(self, seconds: float, interrupted: Callable[[], bool]) -> bool:
        """Close the spool and send what is left; True when the console has everything."""
        closed = self.recorder.close(limits.SETTLE_SECONDS)
        drained = self._shipper is not None and self._shipper.drain(seconds, interrupted)
        if self._heartbeat is not None:
            self._heartbeat.stop()
        return closed and drained

    def lost(self) -> Dict[str, int]:
        return dict(self.spool.lost)

    def _poke(self) -> None:
        if self._shipper is not None:
            self._shipper.poke()


def ingest_base(url: str, job_id: str) -> str:
    """`…/ingest/v1/jobs/<job>`, whether `url` is that or only the console's address."""
    url = url.rstrip("/")
    return url if _INGEST_PATH in url else f"{url}{_INGEST_PATH}{job_id}"


def _spool_bytes(environ: Mapping[str, str]) -> int:
    text = environ.get(limits.ENV_SPOOL_BYTES, "")
    return max(64 * 1024, int(text)) if text.isascii() and text.isdigit() and len(text) < 16 else limits.SPOOL_BYTES


def running_archive(argv0: str) -> Optional[str]:
    """Path of runner.pex when the runner runs from it, None in a source tree."""
    return os.path.abspath(argv0) if os.path.isfile(argv0) and not argv0.endswith(".py") else None
