"""Databases for tests on the PostgreSQL server of this run."""

from __future__ import annotations

from dataclasses import dataclass

from tests.services import postgres


@dataclass(frozen=True)
class PostgresServer:
    """`create(name, template)` copies a database that was prepared once, which is quicker than migrating each."""

    port: int

    def create(self, name: str, template: str | None = None) -> None:
        postgres.create_database(self.port, name, template)

    def drop(self, name: str) -> None:
        postgres.drop_database(self.port, name)

    def url(self, name: str) -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{name}"
