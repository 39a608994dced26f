"""Alembic's entry: runs the revisions on the connection that `upgrade` hands over, in its transaction."""

from __future__ import annotations

from alembic import context

from tuneplane_server.db.tables import load_tables

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=load_tables().metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
