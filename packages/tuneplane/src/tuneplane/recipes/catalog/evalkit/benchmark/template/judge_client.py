"""Asks a model behind an OpenAI-compatible endpoint, with nothing but Python's standard library.

The platform names the judge (`TUNEPLANE_JOB_JUDGE_ENDPOINT`, `TUNEPLANE_JOB_JUDGE_TOKEN`); one of your own comes with `JUDGE_ENDPOINT`
(a base URL such as https://host/v1) and `JUDGE_TOKEN`. `JUDGE_MODEL` is the model to ask for; without it, the first that is listed.
"""

import json
import os
import time
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

SECONDS = 60  # for one reply
TRIES = 3  # of one request, with a growing pause between them
MAX_BYTES = 1_000_000  # of a reply
NO_JUDGE = (
    "a judge is needed, and TUNEPLANE_JOB_JUDGE_ENDPOINT {what}. Ask who runs the console to name one, "
    "or name your own: tp submit --env JUDGE_ENDPOINT=https://host/v1, and JUDGE_TOKEN if it wants one"
)


class JudgeError(Exception):
    """The judge gave no usable reply. The text says why in few words, so that equal reasons can be counted."""


class NoRedirects(HTTPRedirectHandler):
    """Following a redirect would carry the token to another host."""

    def redirect_request(self, *args) -> None:
        return None


class JudgeClient:
    def __init__(self) -> None:
        """`SystemExit` with what to do when no endpoint is set, or it names no model."""
        platform, own = os.environ.get("TUNEPLANE_JOB_JUDGE_ENDPOINT"), os.environ.get("JUDGE_ENDPOINT")
        self.endpoint = (platform or own or "").rstrip("/").removesuffix("/chat/completions")
        self.token = os.environ.get("TUNEPLANE_JOB_JUDGE_TOKEN" if platform else "JUDGE_TOKEN", "")
        if not self.endpoint.startswith(("http://", "https://")):
            what = f"is no http(s) address: {self.endpoint}" if self.endpoint else "is not set"
            raise SystemExit(NO_JUDGE.format(what=what))
        self.opener = build_opener(NoRedirects)
        try:
            self.model = os.environ.get("JUDGE_MODEL") or self.ask("/models")["data"][0]["id"]
        except (JudgeError, LookupError, TypeError) as error:
            raise SystemExit(f"the judge at {self.endpoint} does not say which models it has: {error!r}") from error

    def chat(self, messages: list[tuple[str, str]]) -> str:
        """The reply to `(role, content)` messages."""
        body = {"model": self.model, "temperature": 0, "max_tokens": 512}
        body["messages"] = [{"role": role, "content": content} for role, content in messages]
        reply = self.ask("/chat/completions", body)
        try:
            return reply["choices"][0]["message"]["content"] or ""
        except (LookupError, TypeError) as error:
            raise JudgeError("the reply is no chat completion") from error

    def ask(self, path: str, body: dict | None = None) -> dict:
        """The reply to one request. What may pass (busy, restarting, cut off) is tried again, what will not is not."""
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        request = Request(self.endpoint + path, json.dumps(body).encode() if body else None, headers)  # noqa: S310 - http(s), checked
        for attempt in range(1, TRIES + 1):
            try:
                with self.opener.open(request, timeout=SECONDS) as reply:
                    return json.loads(read(reply))
            except HTTPError as error:
                reason, may_pass = f"HTTP {error.code}", error.code in (408, 429) or error.code >= 500
            except ValueError:
                reason, may_pass = "the reply is no JSON", False
            except (OSError, HTTPException) as error:
                reason, may_pass = str(getattr(error, "reason", None) or error or type(error).__name__)[:120], True
            if not may_pass:
                break
            if attempt < TRIES:
                time.sleep(2**attempt)
        raise JudgeError(reason)


def read(reply) -> bytes:
    """The whole reply; bounded in time too, when it drips in byte by byte."""
    deadline, data = time.monotonic() + SECONDS, b""
    while chunk := reply.read1(65536):
        data += chunk
        if len(data) > MAX_BYTES or time.monotonic() > deadline:
            raise TimeoutError("the reply is too long or too slow")
    return data
