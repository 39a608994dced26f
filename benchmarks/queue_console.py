"""A console on the simulated cluster of `queue_seed`, in a process of its own: `python -m benchmarks.queue_console`, settings from the environment."""

from __future__ import annotations

import gc

from benchmarks.queue_seed import Cluster
from tuneplane_server.serving import serve_console
from tuneplane_server.settings import load_settings


def main() -> None:
    gc.disable()  # as `tuneplane-server serve` does it
    serve_console(load_settings(), print, executor=Cluster())


if __name__ == "__main__":
    main()
