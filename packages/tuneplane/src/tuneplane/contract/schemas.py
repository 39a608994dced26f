"""Writes the published JSON Schemas: `python -m tuneplane.contract.schemas DIR [--check]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tuneplane.contract.capsule import Capsule
from tuneplane.contract.ingest import Heartbeat, HeartbeatAnswer, IngestAnswer, Record
from tuneplane.contract.jobspec import JobSpec
from tuneplane.contract.lock import RecipeLock
from tuneplane.contract.outcome import ArtifactIndex, Outcome
from tuneplane.contract.recipe import Manifest

PUBLISHED: dict[str, Any] = {
    "jobspec": JobSpec,
    "recipe": Manifest,
    "recipe-lock": RecipeLock,
    "capsule": Capsule,
    "outcome": Outcome,
    "artifacts": ArtifactIndex,
    "ingest-record": Record,
    "ingest-answer": IngestAnswer,
    "heartbeat": Heartbeat,
    "heartbeat-answer": HeartbeatAnswer,
}


def render(name: str) -> str:
    """The schema of one published shape, draft 2020-12, keys sorted, newline at the end."""
    schema = TypeAdapter(PUBLISHED[name]).json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    directory, check = Path(arguments[0]), "--check" in arguments
    stale = []
    for name in PUBLISHED:
        path, text = directory / f"{name}.schema.json", render(name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    if check and stale:
        sys.stderr.write(f"schemas out of date: {', '.join(stale)}; run make schemas\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
