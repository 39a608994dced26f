"""A console whose executor sees every run running, in a process of its own: `python -m benchmarks.adoption_console`, settings from the
environment.
"""

from __future__ import annotations

import gc

from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tuneplane_server.executors.port import Handle, Observation
from tuneplane_server.serving import serve_console
from tuneplane_server.settings import load_settings


class Alive(ScriptedExecutor):
    async def observe(self, handle: Handle) -> Observation:
        return Observation("present", running=True)


if __name__ == "__main__":
    gc.disable()  # as `tuneplane-server serve` does it
    serve_console(load_settings(), print, executor=Alive(gpus=0))
