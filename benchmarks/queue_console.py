"""A console on the simulated cluster of `queue_seed`, in a process of its own: `python -m benchmarks.queue_console`, settings from the environment."""

from __future__ import annotations

import uvicorn

from benchmarks.queue_seed import Cluster
from tuneplane_server.app import create_app
from tuneplane_server.settings import load_settings


def main() -> None:
    settings = load_settings()
    app = create_app(settings, executor=Cluster())
    uvicorn.run(app, host="127.0.0.1", port=settings.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
