"""What every refused submission has in common: a code, exit 3, and nothing changed anywhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.harness import Answer, Client

_CODE = re.compile(r"\[([a-z-]+)\]$", re.MULTILINE)


@dataclass
class Untouched:
    """What nothing refused may change: jobs and packages of the console, every file of the lab, what the client has saved."""

    client: Client
    before: Any = field(init=False)

    def __post_init__(self) -> None:
        self.before = self._state()

    def check(self) -> None:
        assert self._state() == self.before

    def _state(self) -> Any:
        jobs = [job["id"] for job in self.client.api("/jobs")["items"]]
        packages = sorted(path.name for path in (self.client.console.storage / "packages").rglob("*"))
        files = {
            path: path.read_bytes()
            for folder in (self.client.lab, self.client.folder / "home")
            for path in folder.rglob("*")
            if path.is_file() and path.stat().st_size < 1_000_000
        }
        return jobs, packages, files


def codes(text: str) -> list[str]:
    """The codes of the refusals in what `tp` said, in order."""
    return _CODE.findall(text)


def refused(client: Client, *arguments: str, code: str) -> str:
    """Run `tp`; it must be refused with this code (or these, joined by blanks) and no other, and change nothing. What it said."""
    answer = refuse(client, *arguments)
    assert codes(answer.err) == code.split(), answer.err
    return answer.err


def refuse(client: Client, *arguments: str, exit_code: int = 3) -> Answer:
    """Run `tp`; it must end with this code, say something, and change nothing."""
    untouched = Untouched(client)
    answer = client.tp(*arguments, code=exit_code)
    assert answer.out == ""
    assert answer.err.strip()
    untouched.check()
    return answer
