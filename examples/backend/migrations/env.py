"""Runs the backend's revisions, on the connection it is given or on the database of the settings."""

import sqlalchemy as sa

from alembic import context
from backscroll import include_name
from examples.backend.database import create_engine
from examples.backend.models import Base
from examples.backend.settings import BackendSettings


def run(connection: sa.Connection) -> None:
    context.configure(
        connection=connection, target_metadata=Base.metadata, include_name=include_name, render_as_batch=True
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    settings = BackendSettings()
    engine = create_engine(settings.database_url, lock_timeout=settings.lock_timeout)
    with engine.execution_options(writing=True).begin() as connection:
        run(connection)
    engine.dispose()
