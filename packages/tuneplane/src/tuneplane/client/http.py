"""The console's API `/api/v1`, one method per call.

    with Console("https://tuneplane.example", token) as console:
        for job in console.iterate_jobs(project="mine"):
            print(job["id"], job["phase"])

Every call raises one of: `RefusedError` (with every refusal), `NotSignedInError`, `NotFoundError`, `ProblemError`, `UnreachableError`.
"""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Self
from urllib.parse import quote

from tuneplane.client import types
from tuneplane.client.errors import UnreachableError
from tuneplane.client.replies import failure, odd, parse_reply, read_body
from tuneplane.client.transport import make_client
from tuneplane.i18n import _
from tuneplane.quoted_words import system_words

if TYPE_CHECKING:
    import httpx2

API = "/api/v1"
MAX_TRIES = 3
MAX_WAIT_SECONDS = 10.0
_BUSY = (429, 502, 503, 504)
_UPLOAD_CHUNK = 256 * 1024

Progress = Callable[[int], None]


class Console:
    """One console. Cheap to make: the connection is opened by the first call. Not for use from several threads."""

    def __init__(
        self,
        server: str,
        token: str | None = None,
        *,
        ca_file: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`server`: base URL. `ca_file`: PEM file of the authority that signed the console's certificate."""
        self.server = server.rstrip("/")
        self.token = token
        self.ca_file = ca_file
        self._sleep = sleep
        self._client: httpx2.Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    # --- the console and the user -------------------------------------------------------------------------------

    def server_info(self) -> types.ServerInfo:
        info: types.ServerInfo = self._get("/server", types.ServerInfo)
        if info["name"] != "tuneplane":
            raise odd(self.server, _("it calls itself “{name}”").format(name=info["name"][:60]))
        return info

    def start_device_login(self, client: str) -> types.DeviceStart:
        return self._post("/auth/device", {"client": client}, types.DeviceStart)

    def collect_device_login(self, device_code: str) -> types.DeviceToken:
        """Raises `ProblemError` with code `not-yet` until the user has confirmed the code in the browser."""
        return self._post("/auth/device/token", {"device_code": device_code}, types.DeviceToken)

    def me(self) -> types.Me:
        return self._get("/me", types.Me)

    def revoke_token(self) -> None:
        """The token of this client stops working."""
        self._call("DELETE", "/me/token", None)

    def catalog(self) -> types.Catalog:
        return self._get("/catalog", types.Catalog)

    def manifest(self, method: str) -> dict[str, Any]:
        """The recipe's manifest as this console has it; `method` is `<framework>/<method>`."""
        return self._get(f"/catalog/{quote(method, safe='/')}", dict[str, Any])

    def organisation_recipes(self) -> dict[str, bytes]:
        """Path -> content of the recipes that were published on this console."""
        answer: types.RecipeFiles = self._get("/organisation/recipes", types.RecipeFiles)
        try:
            return {name: b64decode(text, validate=True) for name, text in answer["files"].items()}
        except ValueError:
            raise odd(self.server, _("a file that it sends is not base64")) from None

    def hardware(self, *, cursor: str | None = None, limit: int = 1) -> types.Hardware:
        """The profiles, and a page of the machines."""
        return self._get("/hardware", types.Hardware, {"cursor": cursor, "limit": limit})

    def machines(self) -> Iterator[dict[str, Any]]:
        """All of them, with their newest figures; none where the console is too old to tell of any."""
        return self._pages(
            lambda cursor: {**(page := self.hardware(cursor=cursor, limit=200)), "items": page.get("nodes") or []}
        )

    def job_hardware(self, job: str) -> types.JobHardware:
        """The newest figures of a run's machines and cards; the curves only in outline."""
        return self._get(f"{_job(job)}/hardware", types.JobHardware, {"max_points": 8})

    def own_quota(self, project: str | None = None) -> types.OwnQuota:
        """The user's limits and use, and those of the project if it is one of theirs."""
        return self._get("/quota", types.OwnQuota, {"project": project})

    # --- submitting -----------------------------------------------------------------------------------------------

    def has_package(self, digest: str) -> bool:
        with self._answer("HEAD", f"/packages/{digest}", repeat=True) as response:
            if response.status_code == 404:
                return False
            if response.is_success:
                return True
            raise failure(response, read_body(response, self.server), self.server)

    def upload_package(self, digest: str, file: IO[bytes], size: int, progress: Progress | None = None) -> None:
        """Send a package, streamed from `file` (read from its start, `size` bytes). Sending the same one twice does no harm."""

        def chunks() -> Iterator[bytes]:
            while chunk := file.read(_UPLOAD_CHUNK):
                yield chunk
                if progress:
                    progress(len(chunk))

        def send() -> None:
            file.seek(0)
            headers = {"Content-Type": "application/gzip", "Content-Length": str(size)}
            with self._answer("PUT", f"/packages/{digest}", content=chunks(), headers=headers) as response:
                body = read_body(response, self.server)
                if not response.is_success:
                    raise failure(response, body, self.server)

        try:
            send()
        except UnreachableError:
            if self.has_package(digest):  # it arrived, and only the answer was lost
                return
            send()

    def submit(self, jobspec: dict[str, Any], idempotency_key: str) -> types.Job:
        """Submit a job. The same key gives the job that the first call made, so that a lost answer costs nothing."""
        headers = {"Idempotency-Key": idempotency_key}
        return self._call("POST", "/jobs", types.Job, json=jsonable(jobspec), headers=headers, repeat=True)

    def dry_run(self, jobspec: dict[str, Any]) -> types.DryRun:
        """What admission says, and what the job would get. Changes nothing."""
        return self._call(
            "POST", "/jobs", types.DryRun, json=jsonable(jobspec), params={"dry_run": "true"}, repeat=True
        )

    # --- jobs -----------------------------------------------------------------------------------------------------

    def jobs(
        self,
        *,
        project: str | None = None,
        phase: str | None = None,
        experiment: str | None = None,
        text: str | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> types.JobPage:
        """One page, newest first. `text` is part of the run id, a name or the method."""
        params = {"project": project, "phase": phase, "experiment": experiment, "text": text}
        return self._get("/jobs", types.JobPage, {**params, "cursor": cursor, "limit": limit})

    def iterate_jobs(self, **filters: Any) -> Iterator[types.Job]:
        """Every job that fits, newest first, page by page; filters as in `jobs`."""
        return self._pages(lambda cursor: self.jobs(cursor=cursor, **filters))

    def job(self, job: str) -> types.Job:
        return self._get(_job(job), types.Job)

    def cancel(self, job: str) -> types.Job:
        return self._call("POST", f"{_job(job)}/cancel", types.Job, repeat=True)

    def pause(self, job: str) -> types.Job:
        return self._call("POST", f"{_job(job)}/pause", types.Job, repeat=True)

    def resume(self, job: str, idempotency_key: str, from_step: int | None = None) -> types.Job:
        """The paused job itself, going on; or the new run that goes on from one that is over, whose `origin` it is."""
        body = {} if from_step is None else {"from_step": from_step}
        return self._keyed(f"{_job(job)}/resume", body, idempotency_key)

    def retry(self, job: str, idempotency_key: str) -> types.Job:
        """The new run that repeats one that is over."""
        return self._keyed(f"{_job(job)}/retry", {}, idempotency_key)

    def export(self, job: str, wanted: dict[str, Any], idempotency_key: str) -> types.Job:
        """The new run that exports a checkpoint of this one; `wanted`: step, merge_lora, dtype, name, profile, cpus, memory_gb."""
        return self._keyed(f"{_job(job)}/export", wanted, idempotency_key)

    def export_plan(self, job: str, wanted: dict[str, Any]) -> types.ExportDryRun:
        """What admission says to that, and what the run would do. Changes nothing."""
        path, params = f"{_job(job)}/export", {"dry_run": "true"}
        return self._call("POST", path, types.ExportDryRun, json=wanted, params=params, repeat=True)

    def approve(self, job: str) -> types.Job:
        """Administrators only."""
        return self._call("POST", f"{_job(job)}/approve", types.Job)

    def reject(self, job: str, why: str) -> types.Job:
        """Administrators only. The job's owner reads `why`."""
        return self._call("POST", f"{_job(job)}/reject", types.Job, json={"why": why})

    def iterate_events(self, job: str) -> Iterator[types.JobEvent]:
        path = f"{_job(job)}/events"
        return self._pages(lambda cursor: self._get(path, types.EventPage, {"cursor": cursor}))

    def logs(self, job: str, **query: Any) -> types.LogPage:
        """One page; `query`: cursor, limit, attempt, rank, fd, level, tail, grep, context, since, at, fold."""
        return self._get(f"{_job(job)}/logs", types.LogPage, query)

    def metrics(self, job: str, rank: int | None = None) -> types.Metrics:
        return self._get(f"{_job(job)}/metrics", types.Metrics, {"rank": rank})

    def curves(self, job: str, names: list[str], max_points: int | None = None, **query: Any) -> types.Curves:
        """`query`: attempt, rank, x (the axis that every part gets a column for), step_min, step_max."""
        params = {"name": names, "max_points": max_points, **query}
        return self._get(f"{_job(job)}/curves", types.Curves, params)

    def samples(self, job: str, **query: Any) -> types.SamplePage:
        """One page; `query`: cursor, limit, kind, step, step_min, step_max, attempt, rank, min_reward, max_reward, grep, order
        (oldest, newest, highest or lowest)."""
        return self._get(f"{_job(job)}/samples", types.SamplePage, query)

    def iterate_samples(self, job: str, **query: Any) -> Iterator[types.SampleItem]:
        return self._pages(lambda cursor: self.samples(job, cursor=cursor, **query))

    def artifacts(self, job: str) -> types.Artifacts:
        return self._get(f"{_job(job)}/artifacts", types.Artifacts)

    @contextmanager
    def streamed(self, job: str, path: str, params: dict[str, Any]) -> Iterator[httpx2.Response]:
        """The open answer of a call that gives a file: `logs/raw`, `metrics/export`, `samples/export`."""
        with self._answer(
            "GET", f"{_job(job)}/{path}", params=params, headers={"Accept": "*/*"}, repeat=True
        ) as answer:
            if not answer.is_success:
                raise failure(answer, read_body(answer, self.server), self.server)
            yield answer

    @contextmanager
    def artifact_file(self, job: str, attempt: int | None, path: str, offset: int = 0) -> Iterator[httpx2.Response]:
        """The open answer for one file, from byte `offset` on: status 200 (the whole file), 206 (the rest), or 416 (nothing there)."""
        headers = {"Accept": "application/octet-stream", "Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        params = {"attempt": attempt, "path": path}
        with self._answer("GET", f"{_job(job)}/artifacts/file", params=params, headers=headers, repeat=True) as answer:
            if not answer.is_success and answer.status_code != 416:
                raise failure(answer, read_body(answer, self.server), self.server)
            yield answer

    # --- one call -------------------------------------------------------------------------------------------------

    def _get(self, path: str, shape: Any, params: dict[str, Any] | None = None) -> Any:
        return self._call("GET", path, shape, params=params, repeat=True)

    def _keyed(self, path: str, value: dict[str, Any], key: str) -> types.Job:
        """A call that makes at most one run, however often it is sent with the same key."""
        return self._call("POST", path, types.Job, json=value, headers={"Idempotency-Key": key}, repeat=True)

    def _post(self, path: str, value: dict[str, Any], shape: Any) -> Any:
        return self._call("POST", path, shape, json=value)

    def _call(self, method: str, path: str, shape: Any, **arguments: Any) -> Any:
        with self._answer(method, path, **arguments) as response:
            body = read_body(response, self.server)
            if shape is None and response.is_success:
                return None
            return parse_reply(response, body, shape, self.server)

    def _pages(self, page: Callable[[str | None], Any]) -> Iterator[Any]:
        cursor: str | None = None
        while True:
            answer = page(cursor)
            yield from answer["items"]
            following = answer.get("next_cursor")
            if not following:
                return
            if following == cursor:
                raise odd(self.server, _("a list goes in a circle"))
            cursor = following

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, Any] | None = None,
        repeat: bool = False,
        **arguments: Any,
    ) -> Iterator[httpx2.Response]:
        """The open answer. `repeat`: the call may be sent again when it did not get through, up to `MAX_TRIES` times."""
        query = {key: value for key, value in (params or {}).items() if value is not None}
        for attempt in range(1, MAX_TRIES + 1):
            last = not repeat or attempt == MAX_TRIES
            response = self._send(method, path, query, arguments, last=last)
            if response is None or (response.status_code in _BUSY and not last):
                pause = _pause(response, attempt)
                if response is not None:
                    response.close()
                self._sleep(pause)
                continue
            try:
                with transport_errors(self.server):
                    yield response
            finally:
                response.close()
            return

    def _send(
        self, method: str, path: str, query: dict[str, Any], arguments: dict[str, Any], *, last: bool
    ) -> httpx2.Response | None:
        """Send and read the head of the answer; None when the call did not get through and may be repeated."""
        import httpx2

        with transport_errors(self.server):
            if self._client is None:
                self._client = make_client(self.server, self.token, self.ca_file)
            request = self._client.build_request(method, API + path, params=query, **arguments)
            try:
                return self._client.send(request, stream=True)
            except (httpx2.NetworkError, httpx2.RemoteProtocolError):
                if last:
                    raise
                return None


@contextmanager
def transport_errors(server: str) -> Iterator[None]:
    """Errors of the HTTP library become `UnreachableError`, each with its own sentence."""
    import httpx2

    hint = _("is the console running, and is the address right? tp server ls shows it")
    try:
        yield
    except httpx2.ConnectTimeout:
        raise UnreachableError(
            _("{server} does not answer (no connection in time)").format(server=server), hint
        ) from None
    except httpx2.TimeoutException:
        message = _("{server} took the connection and then did not answer in time").format(server=server)
        raise UnreachableError(message, _("try again; the console may be overloaded or hanging")) from None
    except httpx2.ConnectError as error:
        message = _("cannot connect to {server}: {why}").format(server=server, why=_short(error))
        raise UnreachableError(message, hint) from None
    except httpx2.ProxyError as error:
        message = _("the proxy between here and {server} refused: {why}").format(server=server, why=_short(error))
        raise UnreachableError(message, _("look at HTTPS_PROXY, HTTP_PROXY and NO_PROXY")) from None
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        message = _("the connection to {server} broke: {why}").format(server=server, why=_short(error))
        raise UnreachableError(message, _("try again")) from None
    except (httpx2.InvalidURL, UnicodeError) as error:
        message = _("{server} is no usable address: {why}").format(server=server, why=_short(error))
        raise UnreachableError(message, hint) from None


def jsonable(value: dict[str, Any]) -> dict[str, Any]:
    """Guard against NaN and infinities, which JSON lacks; raises `ValueError`."""
    import json

    json.dumps(value, allow_nan=False)
    return value


def _job(job: str) -> str:
    return f"/jobs/{quote(job, safe='')}"


def _pause(response: httpx2.Response | None, attempt: int) -> float:
    """Seconds before the next try: what the console asks for, within bounds, else 0.2 s doubling."""
    wanted = response.headers.get("retry-after", "") if response is not None else ""
    if wanted.isascii() and wanted.isdigit():
        return min(float(wanted), MAX_WAIT_SECONDS)
    return min(0.2 * 2 ** (attempt - 1), MAX_WAIT_SECONDS)


def _short(error: Exception) -> str:
    """The library's own words on one line."""
    return " ".join(system_words(error).split())[:300]
