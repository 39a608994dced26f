"""Alembic's entry: runs the revisions on the connection that `upgrade` hands over, in its transaction."""

from __future__ import annotations

from alembic import context

from tuneplane_server.db.base import Base

context.configure(
    connection=context.config.attributes["connection"],
    # Its names of constraints are all that revisions need: they do not look at the tables of the code, and to load those means to
    # look through every package of the console.
    target_metadata=Base.metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
