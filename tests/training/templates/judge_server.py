"""A judge: a real HTTP server that speaks the part of OpenAI's protocol that the template of trl/grpo-judge uses.

It is no model: the grade is computed from the answer, so the same answer gets the same grade. What it should do wrong is said
by `plan` and `status_for`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "tiny-judge"


@dataclass
class Judge:
    """`plan`: what the next requests for a grade get instead of one: a status, or a whole body; empty: grades.
    `asked` holds the bodies of all of them, `tokens` what they were sent with."""

    url: str = ""
    token: str = ""
    plan: list[int | bytes] = field(default_factory=list)
    status_for: dict[str, int] = field(default_factory=dict)  # text in the answer -> status, each time
    asked: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, path: str, token: str | None, body: dict[str, Any]) -> tuple[int, bytes]:
        with self.lock:
            self.tokens.append(token)
            if self.token and token != f"Bearer {self.token}":
                return 401, b'{"error": {"message": "wrong token"}}'
            if path == "/v1/models":
                return 200, json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}).encode()
            if path != "/v1/chat/completions":
                return 404, b"{}"
            self.asked.append(body)
            if self.plan:
                planned = self.plan.pop(0)
                return (planned, b"{}") if isinstance(planned, int) else (200, planned)
        answer = answer_in(body)
        status = next((status for text, status in self.status_for.items() if text in answer), 200)
        return status, completion(f"It has {len(set(answer))} kinds of letters.\nScore: {len(set(answer)) % 10 + 1}")


def completion(text: str | None) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return json.dumps({"object": "chat.completion", "model": MODEL, "choices": [choice]}).encode()


def answer_in(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"]).split("<answer>\n")[1].split("\n</answer>")[0]


@contextmanager
def judge_server(token: str = "") -> Iterator[Judge]:
    judge = Judge(token=token)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: dict[str, Any]) -> None:
            status, data = judge.reply(self.path, self.headers["Authorization"], body)
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{judge.url}/elsewhere")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    judge.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield judge
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)
