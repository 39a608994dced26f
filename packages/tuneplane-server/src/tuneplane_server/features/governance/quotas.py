"""Whose quota it is, and every quota at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tuneplane.i18n import _
from tuneplane_server.domain.quotas import Limits, Scope
from tuneplane_server.features.governance.limits import merged
from tuneplane_server.features.governance.tables import QuotaRow

SCOPES: tuple[Scope, Scope] = ("user", "project")


@dataclass(frozen=True)
class Subject:
    """A user, a project (`name` is `<owner>/<project>`), or with an empty id everyone of the scope without a value of their own."""

    scope: Scope
    id: str
    name: str
    owner_id: str | None = None  # of a project

    @property
    def default(self) -> bool:
        return not self.id

    def __str__(self) -> str:
        """For the audit record."""
        return f"{self.scope}:{self.name or '*'}"

    def text(self) -> str:
        """For a sentence, in the reader's language."""
        return whose(self.scope, self.name)


def whose(scope: Scope, name: str) -> str:
    """A user or project in a sentence; without a name the default of the scope."""
    if scope == "user":
        return _("the user {name}").format(name=name) if name else _("the default of users")
    return _("the project {name}").format(name=name) if name else _("the default of projects")


@dataclass(frozen=True)
class Quota:
    """A row as it is. `version` 0: nobody has ever set it. `own`: the fields that are set; `limits`: what is in force."""

    subject: Subject
    own: Mapping[str, Any]
    default: Mapping[str, Any]
    version: int
    updated_at: datetime | None
    updated_by: str | None

    @property
    def limits(self) -> Limits:
        return merged(self.own, self.default)


class Book:
    """The limits of everyone."""

    def __init__(self, rows: Iterable[QuotaRow]) -> None:
        self._rows = {(row.scope, row.subject_id): row for row in rows}

    def own(self, scope: Scope, subject_id: str) -> Mapping[str, Any]:
        row = self._rows.get((scope, subject_id))
        return {} if row is None else row.limits

    def default(self, scope: Scope) -> Mapping[str, Any]:
        return self.own(scope, "")

    def limits(self, scope: Scope, subject_id: str) -> Limits:
        """What is in force for one of them."""
        return merged(self.own(scope, subject_id), self.default(scope))

    def quota(self, subject: Subject) -> Quota:
        row = self._rows.get((subject.scope, subject.id))
        default = {} if subject.default else self.default(subject.scope)
        if row is None:
            return Quota(subject, {}, default, 0, None, None)
        return Quota(subject, row.limits, default, row.version, row.updated_at, row.updated_by)

    def holders(self) -> list[tuple[Scope, str]]:
        """(scope, id) of everyone with a value of their own; defaults have an empty id and come first."""
        return [
            (scope, subject_id)
            for scope in SCOPES
            for row_scope, subject_id in sorted(self._rows)
            if row_scope == scope and self._rows[row_scope, subject_id].limits
        ]

    def with_(self, scope: Scope, subject_id: str, limits: Mapping[str, Any]) -> Book:
        """The book as it would be after an edit."""
        book = Book(row for key, row in self._rows.items() if key != (scope, subject_id))
        book._rows[scope, subject_id] = QuotaRow(scope=scope, subject_id=subject_id, limits=dict(limits))
        return book
