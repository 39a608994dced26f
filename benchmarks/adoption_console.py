"""A console whose executor sees every run running, in a process of its own: `python -m benchmarks.adoption_console`, settings from the
environment.
"""

from __future__ import annotations

import uvicorn

from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tuneplane_server.app import create_app
from tuneplane_server.executors.port import Handle, Observation
from tuneplane_server.settings import load_settings


class Alive(ScriptedExecutor):
    async def observe(self, handle: Handle) -> Observation:
        return Observation("present", running=True)


if __name__ == "__main__":
    settings = load_settings()
    app = create_app(settings, executor=Alive(gpus=0))
    uvicorn.run(app, host="127.0.0.1", port=settings.port, log_level="warning")
