"""Runs the revisions: on a connection that the caller hands over, or on the URL of the ini file or environment."""

import os

import sqlalchemy as sa

from alembic import context
from backscroll.infrastructure.comparing import include_in_ours
from backscroll.infrastructure.engine import begun, create_engine
from backscroll.infrastructure.migrate import rename_stamp
from backscroll.infrastructure.rows import VERSION_TABLE, Row


def run(connection: sa.Connection) -> None:
    rename_stamp(connection)
    context.configure(
        connection=connection,
        target_metadata=Row.metadata,
        version_table=VERSION_TABLE,
        include_name=include_in_ours,
        render_as_batch=True,
        transaction_per_migration=False,
    )
    with context.begin_transaction():
        context.run_migrations()


connection = context.config.attributes.get("connection")
if connection is not None:
    run(connection)
else:
    url = os.environ.get("BACKSCROLL_DATABASE_URL") or context.config.get_main_option("sqlalchemy.url") or ""
    engine = create_engine(url, busy_timeout=10, synchronous="FULL")
    with begun(engine, writing=True) as connection:
        run(connection)
        connection.commit()
    engine.dispose()
