"""The typed client of slurmrestd. Its errors are SlurmError, by kind; see there what each one leaves known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, NoReturn

from tuneplane_server.executors.slurm.rest import outcomes
from tuneplane_server.executors.slurm.rest.discovery import offered_versions
from tuneplane_server.executors.slurm.rest.models import (
    Association,
    Health,
    Partition,
    SlurmError,
    SlurmJob,
    SlurmNode,
    SlurmVersionError,
    Submission,
)
from tuneplane_server.executors.slurm.rest.shapes import KNOWN, newest
from tuneplane_server.executors.slurm.rest.shapes.base import Body, Shape, listed, release
from tuneplane_server.executors.slurm.rest.submitting import check
from tuneplane_server.executors.slurm.rest.tokens import expires_at, issued_at
from tuneplane_server.executors.slurm.rest.transport import (
    CONNECT_SECONDS,
    MAX_ANSWER,
    TOTAL_SECONDS,
    Answer,
    Transport,
)

__all__ = ["SlurmClient", "SlurmError", "SlurmVersionError"]


_MANY = 200  # objects of an answer that are translated beside the loop


class _NoAddressError(SlurmError):
    """The server has no such path."""


class _AwayError(SlurmError):
    """slurmrestd answered that what stands behind it did not."""

    def __init__(self, answer: Answer) -> None:
        problem = outcomes.summary(answer)
        super().__init__("unreachable", problem.text, problem.code)
        self.answer = answer


class SlurmClient:
    """`url`: of slurmrestd, http:// or https://. `user`: whose jobs they are. `token`: the token, its file, or what gives the one
    that is valid now. `ca_file`: the authority of the server's certificate, None for those of the machine. `known`: the data versions
    to choose from. `close` lets go of it.

    The data version is found out before the first call and again when the server no longer has it.
    """

    def __init__(
        self,
        url: str,
        user: str,
        token: str | Path | Callable[[], str],
        *,
        ca_file: Path | None = None,
        total_seconds: float = TOTAL_SECONDS,
        connect_seconds: float = CONNECT_SECONDS,
        max_answer: int = MAX_ANSWER,
        known: Sequence[str] = KNOWN,
    ) -> None:
        self._user = user
        self._known = tuple(known)
        self._transport = Transport(
            url,
            user,
            token,
            ca_file=ca_file,
            total_seconds=total_seconds,
            connect_seconds=connect_seconds,
            max_answer=max_answer,
        )
        self._shape: Shape | None = None

    @property
    def url(self) -> str:
        return self._transport.url

    async def close(self) -> None:
        await self._transport.close()

    async def discover(self) -> str:
        """The newest version that the server offers and that is known here (`v0.0.42`). Raises SlurmVersionError when there is none."""
        offered = await offered_versions(self._transport)
        shape = newest(offered, self._known)
        if shape is None:
            raise SlurmVersionError(sorted(offered), self._known)
        self._shape = shape
        return shape.version

    async def health(self) -> Health:
        """Slurm's version, whether a controller answers, and when the token ends. Raises SlurmError `auth` for a token that the
        controller does not take, `unreachable` when slurmrestd itself is away."""
        shape = await self._chosen()
        try:
            answer = await self._call("GET", f"{shape.prefix}/ping")
            up = shape.controllers_up(answer.body or {})
            if not up:
                # Newer versions say DOWN of a controller that only does not like the token.
                await self._call("GET", f"{shape.prefix}/partitions")
        except _AwayError as problem:
            answer, up = problem.answer, False
        token = await self._transport.read_token()
        return Health(release(answer.body), shape.version, up, expires_at(token), issued_at(token))

    async def submit(self, job: Submission) -> int:
        """The id of the job, of the leader for a heterogeneous one. `unknown-outcome`: it may be there, look for its name and comment
        before it is submitted again."""
        check(job)
        shape = await self._chosen()
        answer = await self._call("POST", f"{shape.prefix}/job/submit", body=shape.submission(job), changes=True)
        job_id = outcomes.job_id_of(answer.body)
        if job_id is not None:
            return job_id
        said = "; ".join(outcomes.warnings(answer.body)) or "no warning either"
        raise SlurmError("unknown-outcome", f"the submit was answered without a job id ({said})")

    async def jobs(self, *, name: str | None = None, everyone: bool = False) -> list[SlurmJob]:
        """What slurmctld remembers of our user's jobs, those of that name only when one is given. `everyone`: of all users' jobs, as
        far as the cluster lets us see them."""
        shape = await self._chosen()
        answer = await self._call("GET", f"{shape.prefix}/jobs")
        found = await self._shaped(answer, "jobs", shape.job)
        return [job for job in found if (everyone or job.user == self._user) and name in (None, job.name)]

    async def job(self, job_id: int) -> list[SlurmJob]:
        """The job, all its components for the leader of a heterogeneous one. Empty: the controller does not know it."""
        shape = await self._chosen()
        try:
            answer = await self._call("GET", f"{shape.prefix}/job/{job_id:d}")
        except SlurmError as problem:
            if problem.kind == "not-found":
                return []
            raise
        found = await self._shaped(answer, "jobs", shape.job)
        return sorted(found, key=lambda job: job.het_offset or 0)

    async def accounted(
        self, *, job_id: int | None = None, name: str | None = None, since: datetime | None = None
    ) -> list[SlurmJob] | None:
        """What slurmdbd knows of our user's jobs, by id (reissued ids give several) or by name and time of its start or end. None:
        there is no accounting here, or none that answers our user. Raises SlurmError, also when slurmdbd is away."""
        shape = await self._chosen()
        path = f"{shape.accounting_prefix}/jobs" if job_id is None else f"{shape.accounting_prefix}/job/{job_id:d}"
        params = shape.accounting_query(name, since) if job_id is None else None
        try:
            answer = await self._call("GET", path, params=params)
        except SlurmError as problem:
            return _no_accounting(problem)
        found = await self._shaped(answer, "jobs", shape.accounted)
        mine = [job for job in found if job.user in ("", self._user) and name in (None, job.name)]
        return sorted(
            mine, key=lambda job: (job.submitted_at.timestamp() if job.submitted_at else 0.0, job.het_offset or 0)
        )

    async def signal(self, job_id: int, signal: Literal["TERM", "KILL"]) -> None:
        """Send it to the job's steps and its batch script, of a heterogeneous job to all components. One that has ended is fine, an
        unknown one `not-found` or fine, as the version has it."""
        if signal not in ("TERM", "KILL"):
            raise ValueError(f"no signal for jobs: {signal}")  # newer versions kill the job for an unknown one
        await self._end(job_id, {"signal": signal})

    async def cancel(self, job_id: int) -> None:
        """End the job with Slurm's own grace (KillWait), also while it waits."""
        await self._end(job_id, None)

    async def nodes(self) -> list[SlurmNode]:
        shape = await self._chosen()
        return await self._shaped(await self._call("GET", f"{shape.prefix}/nodes"), "nodes", shape.node)

    async def partitions(self) -> list[Partition]:
        shape = await self._chosen()
        return await self._shaped(await self._call("GET", f"{shape.prefix}/partitions"), "partitions", shape.partition)

    async def reservations(self) -> list[str]:
        """The names of those that the cluster shows us."""
        shape = await self._chosen()
        answer = await self._call("GET", f"{shape.prefix}/reservations")
        return await self._shaped(answer, "reservations", lambda body: str(body["name"]))

    async def associations(self) -> list[Association] | None:
        """Of our user. None: there is no accounting here."""
        shape = await self._chosen()
        path = f"{shape.accounting_prefix}/associations"
        try:
            answer = await self._call("GET", path, params={"user": self._user})
        except _NoAddressError:
            return None
        found = await self._shaped(answer, "associations", shape.association)
        return [association for user, association in found if user == self._user]

    async def _end(self, job_id: int, params: Mapping[str, str] | None) -> None:
        shape = await self._chosen()
        try:
            await self._call("DELETE", f"{shape.prefix}/job/{job_id:d}", params=params, changes=True)
        except SlurmError as problem:
            if problem.code != outcomes.ALREADY_DONE:
                raise

    async def _chosen(self) -> Shape:
        if self._shape is None:
            await self.discover()
        if self._shape is None:
            raise SlurmVersionError((), self._known)
        return self._shape

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        changes: bool = False,
    ) -> Answer:
        """The answer when all is well, SlurmError else. A token that is not taken is read again, once, and tried if it is another.
        Nothing is sent a second time that may have made a job the first time."""
        token = await self._transport.read_token()
        answer = await self._transport.call(method, path, token=token, body=body, params=params, changes=changes)
        makes = method == "POST"
        verdict = await self._verdict(answer, token, makes=makes)
        if verdict == "auth":
            renewed = await self._transport.read_token()
            if renewed == token:
                raise _not_accepted(answer, token)
            token = renewed
            answer = await self._transport.call(method, path, token=token, body=body, params=params, changes=changes)
            verdict = await self._verdict(answer, token, makes=makes)
        if verdict == "gone" and not path.startswith("/slurmdb/"):
            self._shape = None  # the server was upgraded: the next call looks again
        if verdict != "fine":
            _raise(answer, verdict, token, changes=changes)
        return answer

    async def _verdict(self, answer: Answer, token: str, *, makes: bool) -> outcomes.Verdict:
        """`doubtful` is told apart by a signal that ends nothing to the job 0, which is never there: 22.05 answers every question
        alike, also a ping, when its controller is away and when that does not like the token; for a signal it says which. What it
        says of a moment later proves nothing of a submit, which a controller may have taken before it died."""
        found = outcomes.verdict(answer)
        if found != "doubtful":
            return found
        if makes or self._shape is None or self._shape.names_bad_tokens:
            return "lost"
        try:
            probe = await self._transport.call(
                "DELETE", f"{self._shape.prefix}/job/0", token=token, params={"signal": "CONT"}
            )
        except SlurmError:
            return "lost"
        return "auth" if outcomes.verdict(probe) in ("auth", "doubtful") else "lost"

    async def _shaped[T](self, answer: Answer, name: str, shape: Callable[[Body], T]) -> list[T]:
        """What is in a list of an answer. One object that is odd makes the whole answer odd: a job must not be missing unseen."""
        try:
            objects = listed(answer.body or {}, name)
            if len(objects) > _MANY:
                return await asyncio.to_thread(lambda: [shape(each) for each in objects])
            return [shape(each) for each in objects]
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            words = f"the answer's {name} cannot be understood: {type(problem).__name__}: {problem}"
            raise SlurmError("unreachable", words[:300]) from None


def _raise(answer: Answer, verdict: outcomes.Verdict, token: str, *, changes: bool) -> NoReturn:
    problem = outcomes.summary(answer)
    if verdict == "auth":
        raise _not_accepted(answer, token)
    if verdict == "gone":
        raise _NoAddressError("unreachable", f"the server has no such address ({problem.text})")
    if verdict == "lost" and changes:
        raise SlurmError("unknown-outcome", problem.text, problem.code)
    if verdict == "refused" or verdict == "not-found":
        raise SlurmError(verdict, problem.text, problem.code)
    raise _AwayError(answer)


def _not_accepted(answer: Answer, token: str) -> SlurmError:
    problem = outcomes.summary(answer)
    end = expires_at(token)
    when = f"; it ends {end:%Y-%m-%d %H:%M:%S} UTC by its own words" if end else "; it is no JSON Web Token with an end"
    return SlurmError("auth", f"Slurm does not take the token ({problem.text}){when}", problem.code)


def _no_accounting(problem: SlurmError) -> list[SlurmJob] | None:
    # slurmrestd runs without slurmdbd's addresses, or slurmdbd does not let our user ask: neither will know more later.
    if isinstance(problem, _NoAddressError) or (problem.kind == "refused" and problem.code != outcomes.EMPTY_RESULT):
        return None
    if problem.kind == "not-found" or problem.code == outcomes.EMPTY_RESULT:
        return []
    raise problem
