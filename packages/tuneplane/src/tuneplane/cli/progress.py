"""A progress bar for bytes, on stderr. Imports rich, so only a command that shows one imports this."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn


@contextmanager
def byte_bar(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yields a function that is told how many more bytes have moved."""
    columns = (TextColumn(label), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total)

        def advance(count: int) -> None:
            progress.update(task, advance=count)

        yield advance
