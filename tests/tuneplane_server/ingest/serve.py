"""`python -m tests.tuneplane_server.ingest.serve PORT`: the real console on the environment's settings, without roles."""

from __future__ import annotations

import sys

import uvicorn

from tuneplane_server.app import create_app
from tuneplane_server.settings import load_settings

if __name__ == "__main__":
    uvicorn.run(create_app(load_settings(), roles=False), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
