"""`python -m tests.tuneplane_server.background.replica PORT SHARED [HOLD]`: a real console whose machine others share.

SHARED is where the engine of all replicas keeps what it runs. With HOLD, a launch waits in that directory: `entered` says that one
is about to begin, it goes on when `go` is there, and `returned` says that it is over.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import uvicorn

from tuneplane_server.app import create_app
from tuneplane_server.executors.local import LocalExecutor
from tuneplane_server.executors.port import Capabilities, Handle, LaunchPlan
from tuneplane_server.settings import load_settings


class SharedExecutor(LocalExecutor):
    """The real engine; every replica may ask about every run."""

    def __init__(self, shared: Path, hold: Path | None) -> None:
        super().__init__(load_settings().with_values(data_dir=shared), "shared")
        self._hold = hold

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), one_console=False)

    async def launch(self, plan: LaunchPlan) -> Handle:
        if self._hold is None:
            return await super().launch(plan)
        (self._hold / "entered").touch()
        while not (self._hold / "go").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.05)
        handle = await super().launch(plan)
        (self._hold / "returned").touch()
        return handle


if __name__ == "__main__":
    port, shared, *hold = sys.argv[1:]
    app = create_app(load_settings(), executor=SharedExecutor(Path(shared), Path(hold[0]) if hold else None))
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")
