"""Many values in one statement, given as one parameter.

`IN` and `VALUES` have a parameter for each value: of hundreds SQLAlchemy writes the statement anew at every execution, and the driver takes it apart
anew, which costs more than most reads. With one parameter the text stays the same and is prepared once, and no database's limit of
parameters is near.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ARRAY, ColumnElement, String, TableValuedAlias, any_, func, literal, select
from sqlalchemy.ext.asyncio import AsyncSession


def among(session: AsyncSession, column: Any, values: Sequence[str]) -> ColumnElement[bool]:
    """Whether a column of text has one of the values; of none it is false."""
    if session.get_bind().dialect.name == "sqlite":
        found: ColumnElement[bool] = column.in_(select(listed(session, values).c.value))
        return found
    is_one: ColumnElement[bool] = column == any_(literal(list(values), ARRAY(String)))
    return is_one


def listed(session: AsyncSession, values: Sequence[str]) -> TableValuedAlias:
    """The values to select from, in their order: column `value`."""
    if session.get_bind().dialect.name == "sqlite":
        return func.json_each(json.dumps(values)).table_valued("value")
    return func.unnest(literal(list(values), ARRAY(String))).table_valued("value").render_derived()
