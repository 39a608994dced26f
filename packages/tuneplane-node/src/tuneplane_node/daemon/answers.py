"""What every answer of the daemon has: the header that says who answers, and refusals in the words of the table."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from tuneplane_node.engine.problems import NodeError
from tuneplane_node.wire import VERSION_HEADER, NodeProblem


class Answers:
    """`version`: what the daemon says it is."""

    def __init__(self, version: str) -> None:
        self._headers = {"Cache-Control": "no-store", VERSION_HEADER: version}

    def json(self, value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
        return Response(msgspec.json.encode(value), status, {**self._headers, **(headers or {})}, "application/json")

    def octets(self, content: bytes) -> Response:
        return Response(content, 200, self._headers, "application/octet-stream")

    def refusal(self, error: NodeError, status: int = 409, headers: Mapping[str, str] | None = None) -> Response:
        return self.json({"problem": NodeProblem.of(error).to_json()}, status, headers)
