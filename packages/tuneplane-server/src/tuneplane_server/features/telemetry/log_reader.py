"""Pages of a run's output over all its attempts and machines, from a cursor, from a time, or from the end.

Order: attempts one after the other; within one, lines of its machines by their times, each machine's own order kept.
A machine whose records arrived out of order is read up to its first hole, unless that hole is old.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from math import inf
from time import monotonic

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain import log_codec
from tuneplane_server.domain.cursors import FDS, LineId, LogCursor, RankPlace
from tuneplane_server.domain.log_levels import Level
from tuneplane_server.domain.terminal_fold import FoldState
from tuneplane_server.features.telemetry.rank_reader import Budget, Line, Load, RankReader, Wanted
from tuneplane_server.features.telemetry.records import LOG
from tuneplane_server.features.telemetry.repo import logs as repo
from tuneplane_server.features.telemetry.repo import runs
from tuneplane_server.features.telemetry.tables import MARKER_FD, StreamAckRow

PAGE_BYTES = 8 * 1024 * 1024  # raw output one page may go through without a search
SEARCH_BYTES = 1024 * 1024 * 1024
SECONDS = 10.0
TAIL_BYTES = 512 * 1024  # raw output of one machine that is looked at for its last lines
TAIL_CHUNKS = 16
LINE_CHUNKS = 4  # of one descriptor that are looked at for the beginning of a line
GAP_SECONDS = 60
RAW_CHUNKS = 8


@dataclass(frozen=True)
class LogQuery:
    """`fold`: show redrawn lines as a terminal does. `grep`: text that a line must hold, whatever its case. `level`: so grave or
    graver. `fd`: only of this descriptor. `context`: lines around each that was found.

    `before`: the lines in front of a place, instead of those behind `cursor`. `at`: begin at a line.
    """

    cursor: LogCursor | None = None
    before: LogCursor | None = None
    limit: int = 1000
    attempt: int | None = None
    rank: int | None = None
    tail: int | None = None
    grep: str = ""
    since: float | None = None
    fold: bool = True
    level: Level | None = None
    fd: str | None = None
    context: int = 0
    at: LineId | None = None

    @property
    def searches(self) -> bool:
        """Whether nobody knows how many lines must be read to find one."""
        return bool(self.grep or self.level or self.fd)


@dataclass
class LogPage:
    """`more`: further lines can be read now. `end`: there are none and there will be none.

    `cursor`: the place behind the last line. `start`: the place in front of the first one; read from there, the page comes again.
    """

    lines: list[Line]
    cursor: LogCursor = field(default_factory=dict)
    start: LogCursor = field(default_factory=dict)
    more: bool = False
    end: bool = False


@dataclass(frozen=True)
class _Stream:
    """The output of one machine of one attempt, to be read up to seq `up_to`. `final`: nothing more will come."""

    attempt: int
    rank: int
    up_to: int
    final: bool


class LogReader:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    async def page(self, job_id: str, query: LogQuery, *, live_attempt: int | None) -> LogPage:
        """`live_attempt`: the attempt that may still write; None when the run is over."""
        streams = await self._streams(job_id, query, live_attempt)
        over = live_attempt is None or (query.attempt is not None and query.attempt < live_attempt)
        if query.before is not None:
            page = await self._backward(job_id, query, streams)
        elif query.cursor is None and query.tail is not None:
            page = await self._tail(job_id, query, streams)
        else:
            page = await self._forward(job_id, query, streams)
        page.end = over and not page.more
        return page

    async def raw(self, job_id: str, attempt: int, rank: int, fd: int | None = None) -> AsyncIterator[bytes]:
        """The stored bytes of one machine in the order they came, our remarks included; of one descriptor when asked."""
        from_seq = 1
        while True:
            async with self._database.session() as session:
                chunks = await repo.forward(session, (job_id, attempt, rank), from_seq, RAW_CHUNKS + 1, None, fd)
            whole = len(chunks) <= RAW_CHUNKS
            end = None if whole else chunks[RAW_CHUNKS].seq_first
            found = [
                (piece.seq, chunk.fd != MARKER_FD, piece.data)
                for chunk in chunks[:RAW_CHUNKS]
                for piece in log_codec.decode(chunk.data)
                if from_seq <= piece.seq and (end is None or piece.seq < end)
            ]
            if found:
                yield b"".join(data for _seq, _output, data in sorted(found, key=lambda item: item[:2]))
            if end is None:
                return
            from_seq = end

    async def _streams(self, job_id: str, query: LogQuery, live_attempt: int | None) -> list[_Stream]:
        async with self._database.session() as session:
            rows = await runs.streams(session, job_id, LOG)
        old = self._clock.now() - timedelta(seconds=GAP_SECONDS)
        return [
            _stream(row, old, live_attempt)
            for row in rows
            if query.attempt in (None, row.attempt) and query.rank in (None, row.rank)
        ]

    def _reader(
        self, job_id: str, stream: _Stream, place: RankPlace | None, query: LogQuery, budget: Budget
    ) -> RankReader:
        wanted = _wanted(query, query.since)
        load = self._loader(job_id, stream, stream.up_to)
        return RankReader(stream.attempt, stream.rank, place or RankPlace(), load, wanted, budget, final=stream.final)

    def _loader(self, job_id: str, stream: _Stream, up_to: int) -> Load:
        async def load(from_seq: int, limit: int) -> list[repo.Chunk]:
            async with self._database.session() as session:
                place = (job_id, stream.attempt, stream.rank)
                return await repo.forward(session, place, from_seq, limit, up_to)

        return load

    async def _forward(self, job_id: str, query: LogQuery, streams: list[_Stream]) -> LogPage:
        cursor = dict(query.cursor or {})
        if query.cursor is None and query.at is not None:
            query = await self._around(job_id, streams, query)
            cursor = dict(query.cursor or {})
        elif query.cursor is None and query.since is not None:
            for stream in streams:
                cursor[stream.attempt, stream.rank] = await self._place_at(job_id, stream, query.since)
        budget = _budget(query)
        readers = [self._reader(job_id, one, cursor.get((one.attempt, one.rank)), query, budget) for one in streams]
        lines: list[Line] = []
        async with aclosing(_merged(readers)) as merged:
            async for line, _place in merged:
                lines.append(line)
                if len(lines) >= query.limit:
                    break
        start = cursor | {(reader.attempt, reader.rank): reader.begin for reader in readers}
        more = False
        for reader in readers:
            cursor[reader.attempt, reader.rank] = reader.rest()
            more = more or reader.waiting
        return LogPage(lines, cursor, start, more=more)

    async def _around(self, job_id: str, streams: list[_Stream], query: LogQuery) -> LogQuery:
        """The query with the places from which the line `query.at` is among the first: of its own machine the piece in which it
        ends, of the others of its attempt that moment, of earlier attempts the end."""
        assert query.at is not None
        line = query.at
        async with self._database.session() as session:
            time = await repo.time_of(session, (job_id, line.attempt, line.rank), line.seq)
        cursor: LogCursor = {}
        for stream in streams:
            place = (stream.attempt, stream.rank)
            if stream.attempt < line.attempt:
                cursor[place] = _end_of(stream)
            elif stream.attempt == line.attempt and stream.rank == line.rank:
                cursor[place] = await self._place_from(job_id, stream, line.seq)
            elif stream.attempt == line.attempt and time is not None:
                cursor[place] = await self._place_at(job_id, stream, time)
        return replace(query, cursor=cursor, since=None)

    async def _tail(self, job_id: str, query: LogQuery, streams: list[_Stream]) -> LogPage:
        """The last lines: of the newest attempt, and of earlier ones when it has too few."""
        assert query.tail is not None
        budget, last = _budget(query), deque[Line](maxlen=query.tail)
        budget.raw_bytes = max(budget.raw_bytes, 4 * TAIL_BYTES * len(streams))
        cursor: LogCursor = {(one.attempt, one.rank): _end_of(one) for one in streams}
        start = dict(cursor)
        more = False
        newest = streams[-1].attempt if streams else 0
        for attempt, group in groupby(reversed(streams), key=lambda one: one.attempt):
            wanted = query.tail - len(last)
            # The newest attempt also for no line at all: a line that is open now is whole when it comes.
            if wanted <= 0 and attempt != newest:
                break
            readers: list[RankReader] = []
            for stream in sorted(group, key=lambda one: one.rank):
                # A search cannot know how far back its matches lie.
                place = RankPlace() if query.searches else await self._place_of_tail(job_id, stream, wanted)
                readers.append(self._reader(job_id, stream, place, query, budget))
            found, begins = await _last_lines(readers, wanted)
            last.extendleft(reversed(found))
            start |= begins
            for reader in readers:
                cursor[reader.attempt, reader.rank] = reader.rest()
                more = more or reader.waiting
        return LogPage(list(last), cursor, start, more=more)

    async def _backward(self, job_id: str, query: LogQuery, streams: list[_Stream]) -> LogPage:
        """The lines in front of `query.before`: of the newest attempt that has any, then of earlier ones. A search goes back
        as far as its time allows; where it stopped is `start`."""
        assert query.before is not None
        start = dict(query.before)
        deadline, lines = monotonic() + SECONDS, deque[Line]()
        for _attempt, group in groupby(reversed(streams), key=lambda one: one.attempt):
            of_attempt = sorted(group, key=lambda one: one.rank)
            while len(lines) < query.limit and monotonic() < deadline:
                left = [one for one in of_attempt if _has_before(start.get((one.attempt, one.rank)))]
                if not left:
                    break
                found, begins = await self._step_back(job_id, query, left, start, query.limit - len(lines))
                lines.extendleft(reversed(found))
                start |= begins
        return LogPage(list(lines), query.before, start, more=True)

    async def _step_back(
        self, job_id: str, query: LogQuery, streams: list[_Stream], ends: LogCursor, lines: int
    ) -> tuple[list[Line], LogCursor]:
        """At most `lines` lines in front of `ends`, out of at most `TAIL_BYTES` and a chunk of each machine."""
        wanted = _wanted(query, None)
        budget = Budget(SEARCH_BYTES, inf)  # what one step reads is bounded by itself
        readers: list[RankReader] = []
        for stream in streams:
            end = ends[stream.attempt, stream.rank]
            up_to = end.seq if end.offset else end.seq - 1
            # A search takes what a step may read: nobody knows how many of its lines match.
            begin = await self._place_of_tail(job_id, stream, 1 << 30 if query.searches else lines, before=end)
            load = self._loader(job_id, stream, up_to)
            final = stream.final and end.seq > stream.up_to  # what was left without an end is the last line
            readers.append(RankReader(stream.attempt, stream.rank, begin, load, wanted, budget, final=final, until=end))
        return await _last_lines(readers, lines)

    async def _place_of_tail(
        self, job_id: str, stream: _Stream, lines: int, *, before: RankPlace | None = None
    ) -> RankPlace:
        """A place from which at least `lines` lines follow (up to `before`), found by the counts of newlines from the end."""
        end = stream.up_to + 1 if before is None else before.seq
        start = await self._start_of_tail((job_id, stream.attempt, stream.rank), end, lines)
        return RankPlace() if start is None else await self._place_from(job_id, stream, start)

    async def _start_of_tail(self, place: repo.Place, end: int, lines: int) -> int | None:
        """First seq of the chunk to begin with; None for the very first. What reaches to piece `end` or beyond is not counted."""
        newlines = size = 0
        start: int | None = None
        async with self._database.session() as session:
            while chunks := await repo.backward(session, place, before=start, up_to=end, limit=TAIL_CHUNKS):
                for chunk in chunks:
                    start = chunk.seq_first
                    if chunk.seq_last >= end:
                        continue
                    newlines, size = newlines + chunk.newlines, size + chunk.raw_bytes
                    if newlines > lines + len(FDS) or size >= TAIL_BYTES:
                        return start
        return None

    async def _place_at(self, job_id: str, stream: _Stream, since: float) -> RankPlace:
        """A place before the first line that was completed at `since` or later."""
        async with self._database.session() as session:
            seq = await repo.seq_at_time(session, (job_id, stream.attempt, stream.rank), since)
        return _end_of(stream) if seq is None else await self._place_from(job_id, stream, seq)

    async def _place_from(self, job_id: str, stream: _Stream, seq: int) -> RankPlace:
        """The place before piece `seq`, with the lines that began before it."""
        place = (job_id, stream.attempt, stream.rank)
        async with self._database.session() as session:
            states = [(fd, await _open_line(session, place, fd, seq)) for fd in range(len(FDS))]
        return RankPlace(seq, 0, tuple((fd, state) for fd, state in states if state is not None))


async def _open_line(session: AsyncSession, place: repo.Place, fd: int, seq: int) -> FoldState | None:
    """Where the line begins that `fd` had not ended before piece `seq`; None when it had."""
    before, empty = seq, True
    for _chunk in range(LINE_CHUNKS):
        found = await repo.last_before(session, place, fd, before)
        if found is None:
            return None if empty else FoldState(before, 0)
        if empty and found.seq_last < seq and found.ends_line:
            return None
        before = found.seq_first
        pieces = log_codec.decode(await repo.data_of(session, place, fd, before))
        for piece in reversed([piece for piece in pieces if piece.seq < seq and piece.data]):
            end = piece.data.rfind(b"\n") + 1
            if end:
                return None if empty and end == len(piece.data) else FoldState(piece.seq, end)
            empty = False
    # A progress bar of megabytes: what is seen of it from here on is shown.
    return FoldState(seq, 0, "screen")


def _stream(row: StreamAckRow, old: datetime, live_attempt: int | None) -> _Stream:
    given_up = row.gap_since is not None and row.gap_since <= old
    last = row.islands[-1][1] if given_up else row.contiguous
    return _Stream(row.attempt, row.rank, last, live_attempt is None or row.attempt < live_attempt)


def _has_before(place: RankPlace | None) -> bool:
    return place is not None and place.seq > 0


async def _last_lines(readers: list[RankReader], count: int) -> tuple[list[Line], LogCursor]:
    """The last `count` lines of all, and of each reader the place in front of its first one among them."""
    begins: LogCursor = {(reader.attempt, reader.rank): reader.place for reader in readers}
    kept = deque[tuple[Line, RankPlace]]()
    async with aclosing(_merged(readers)) as merged:
        async for line, place in merged:
            kept.append((line, place))
            if len(kept) > count:
                dropped, after = kept.popleft()
                begins[dropped.attempt, dropped.rank] = after
    return [line for line, _place in kept], begins


def _wanted(query: LogQuery, since: float | None) -> Wanted:
    return Wanted(query.grep.casefold(), since, query.fold, query.level, query.fd, query.context)


def _end_of(stream: _Stream) -> RankPlace:
    return RankPlace(stream.up_to + 1, 0)


def _budget(query: LogQuery) -> Budget:
    return Budget(SEARCH_BYTES if query.searches else PAGE_BYTES, monotonic() + SECONDS)


async def _merged(readers: list[RankReader]) -> AsyncGenerator[tuple[Line, RankPlace]]:
    """Lines of all readers with the places behind them, attempt by attempt. A line counts as read when the next one is asked for or the caller stops."""
    for _attempt, group in groupby(readers, key=lambda reader: reader.attempt):
        of_attempt = list(group)
        ready = [reader for reader in of_attempt if await reader.peek() is not None]
        heads = [(reader.order, reader.rank, reader) for reader in ready]
        heapq.heapify(heads)
        while heads:
            _order, rank, reader = heads[0]
            yield reader.take(), reader.place
            if await reader.peek() is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (reader.order, rank, reader))
        if any(reader.paused for reader in of_attempt):
            return  # later attempts must not come before the rest of this one
