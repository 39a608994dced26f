"""Which data versions a server has: those of its OpenAPI document, or those that answer, where the document cannot be had."""

from __future__ import annotations

import re

from tuneplane_server.executors.slurm.rest import outcomes
from tuneplane_server.executors.slurm.rest.models import SlurmError
from tuneplane_server.executors.slurm.rest.shapes import KNOWN
from tuneplane_server.executors.slurm.rest.transport import Answer, Transport

_SUBMIT = re.compile(r"/slurm/(v\d+\.\d+\.\d+)/job/submit/?")
_NOT_FOUND = 404


async def offered_versions(transport: Transport) -> frozenset[str]:
    """Every version in which the server takes jobs, also unknown ones. Raises SlurmError `auth` or `unreachable`."""
    token = await transport.read_token()
    document = await transport.call("GET", "/openapi/v3", token=token)
    verdict = outcomes.verdict(document)
    if verdict == "auth":
        problem = outcomes.summary(document)
        raise SlurmError("auth", f"slurmrestd does not take the user and token ({problem.text})", problem.code)
    found = _listed(document)
    if found:
        return found
    if verdict not in ("fine", "gone", "refused"):
        problem = outcomes.summary(document)
        raise SlurmError("unreachable", f"the versions cannot be found out: {problem.text}", problem.code)
    return frozenset([version for version in KNOWN if await _answers(transport, version, token)])


def _listed(document: Answer) -> frozenset[str]:
    paths = (document.body or {}).get("paths")
    if not isinstance(paths, dict):
        return frozenset()
    return frozenset(match[1] for path in paths if (match := _SUBMIT.fullmatch(path)))


async def _answers(transport: Transport, version: str, token: str) -> bool:
    """A version that the server does not have is not found; any other answer, also a refusal, is one of it."""
    answer = await transport.call("GET", f"/slurm/{version}/ping", token=token)
    return answer.status != _NOT_FOUND
