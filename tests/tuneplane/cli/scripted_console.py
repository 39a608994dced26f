"""The answers of a console, for tests of what `tp` makes of them. The real one is met in tests/e2e."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tests.tuneplane.client.scripted_server import Reply, Request, ScriptedServer, as_json, problem
from tuneplane.recipes.index import catalog_digest, load_index

RUN = "06h2h3p9mnm8e49y"
API = "/api/v1"


def job(run: str = RUN, **changes: Any) -> dict[str, Any]:
    """A job as `GET /jobs/{id}` gives it."""
    return {
        "id": run,
        "owner": "ann",
        "project": "demo",
        "experiment": "first",
        "display_name": None,
        "recipe": {"name": "trl/sft", "version": "1.0"},
        "phase": "succeeded",
        "desired": "run",
        "conditions": [],
        "reason": None,
        "cleanup": "confirmed",
        "attempt": 1,
        "attempts": [],
        "created_at": "2026-01-31T12:00:00Z",
        "started_at": "2026-01-31T12:00:05Z",
        "finished_at": "2026-01-31T12:03:05Z",
        "pools": [{"name": "main", "series": "h200", "nodes": 2, "gpus_per_node": 8}],
        "simulated": False,
        "runtime": {"runtime_id": "trl-1.16", "image": None, "source": "catalog"},
        "waiting": None,
        "latest": {},
        "spec": None,
        **changes,
    }


class ScriptedConsole:
    """`jobs`: what there is. `packages`: what was uploaded. `submitted`: JobSpecs with their keys. `refusals`: what admission says."""

    def __init__(self, server: ScriptedServer) -> None:
        self.server, self.url, self.token = server, server.url, "good-token"
        self.jobs: list[dict[str, Any]] = []
        self.packages: dict[str, bytes] = {}
        self.submitted: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[dict[str, Any]] = []
        self.refusals: list[dict[str, Any]] = []
        self.profiles: list[dict[str, Any]] = [
            {"name": "cpu", "gpus_per_node": 0, "nodes": 1, "cpus": 8.0, "memory_gb": 32.0},
            {"name": "h200", "gpus_per_node": 8, "nodes": 2, "cpus": 96.0, "memory_gb": 1000.0},
        ]
        self.info: dict[str, Any] = {
            "name": "tuneplane", "version": "0.1.0", "api": "v1", "catalog_digest": catalog_digest(), "executor": "local",
            "setup_needed": False,
        }  # fmt: skip
        answers = server.answers
        answers[f"{API}/server"] = lambda _request: as_json(self.info)
        answers[f"{API}/me"] = self._signed(lambda _request: as_json({"username": "ann", "admin": True, "token": None}))
        answers[f"{API}/me/token"] = self._signed(lambda _request: Reply(204))
        answers[f"{API}/catalog"] = self._signed(lambda _request: as_json(self._catalog()))
        answers[f"{API}/hardware"] = self._signed(
            lambda _request: as_json({"profiles": self.profiles, "nodes": [], "capabilities": {}})
        )
        answers[f"{API}/jobs"] = self._signed(self._jobs)
        self.methods = {
            name: {key: entry[key] for key in ("digest", "manifest_digest", "template_digest")}
            | {"version": entry["manifest"]["version"]}
            for name, entry in load_index()["methods"].items()
        }

    def add_job(self, run: str = RUN, **changes: Any) -> dict[str, Any]:
        """A job that can be listed and shown."""
        made = job(run, **changes)
        self.jobs.insert(0, made)
        self.on(run, "", lambda _request: as_json(made))
        return made

    def on(self, run: str, path: str, answer: Any) -> None:
        """What `/jobs/{run}{path}` answers."""
        self.server.answers[f"{API}/jobs/{run}{path}"] = self._signed(answer) if callable(answer) else answer

    def expect_packages(self) -> None:
        """Take any package, under its own digest."""
        original = self.server.reply

        def reply(request: Request) -> Reply:
            if not request.path.startswith(f"{API}/packages/"):
                return original(request)
            self.server.seen.append(request)
            digest = request.path.rpartition("/")[2]
            if request.method == "HEAD":
                return Reply(200 if digest in self.packages else 404)
            assert hashlib.sha256(request.body).hexdigest() == digest
            self.packages[digest] = request.body
            return as_json({}, 201)

        self.server.reply = reply  # type: ignore[method-assign]

    def _catalog(self) -> dict[str, Any]:
        return {"digest": self.info["catalog_digest"], "methods": self.methods}

    def _signed(self, answer: Any) -> Any:
        def checked(request: Request) -> Reply:
            if request.headers.get("authorization") != f"Bearer {self.token}":
                return problem(401, "not-signed-in", "not signed in")
            reply: Reply = answer(request)
            return reply

        return checked

    def _jobs(self, request: Request) -> Reply:
        if request.method == "GET":
            return self._listing(request)
        spec = json.loads(request.body)
        if request.query.get("dry_run"):
            self.asked.append(spec)
            return as_json({"admitted": not self.refusals, "refusals": self.refusals, "plan": None})
        if self.refusals:
            first = self.refusals[0]
            return problem(422, first["code"], first["message"], refusals=self.refusals)
        self.submitted.append((request.headers["idempotency-key"], spec))
        if f"{API}/jobs/{RUN}" in self.server.answers:  # the test says how the job goes on
            return as_json(job(phase="queued", finished_at=None), 201)
        return as_json(self.add_job(phase="queued", finished_at=None), 201)

    def _listing(self, request: Request) -> Reply:
        found = self.jobs
        for key in ("project", "experiment", "phase"):
            if key in request.query:
                found = [item for item in found if item[key] in request.query[key]]
        if "text" in request.query:
            found = [item for item in found if request.query["text"][0] in item["id"]]
        start = int(request.query.get("cursor", ["0"])[0])
        end = start + int(request.query.get("limit", ["50"])[0])
        return as_json({"items": found[start:end], "next_cursor": str(end) if end < len(found) else None})
