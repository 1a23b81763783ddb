"""One database for the backend and Backscroll: the engine, both schemas, and transactions that hold rows of both."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import sqlalchemy as sa
from alembic.config import Config
from sqlalchemy import event, orm

from alembic import command
from backscroll import Backscroll, Settings, Visibility
from examples.backend.settings import BackendSettings

SCRIPTS = Path(__file__).parent / "migrations"


def create_engine(url: str, *, lock_timeout: float) -> sa.Engine:
    """An SQLite engine whose transactions begin when they say so, and whose writers wait for the lock first.

    Python's sqlite3 begins transactions late by itself; and a transaction that reads before it takes the write lock
    fails at once where it should wait.
    """
    engine = sa.create_engine(url, connect_args={"timeout": lock_timeout})

    @event.listens_for(engine, "connect")
    def _connect(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA journal_mode = WAL")

    @event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        writing = connection.get_execution_options().get("writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def alembic_config(connection: sa.Connection) -> Config:
    """What Alembic's commands need to work on `connection` with the backend's own revisions."""
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


class Database:
    """The open database. Backscroll works on the backend's engine and never closes it."""

    def __init__(self, settings: BackendSettings) -> None:
        """Opens the database and brings both schemas up to date."""
        self._engine = create_engine(settings.database_url, lock_timeout=settings.lock_timeout)
        self._writing = self._engine.execution_options(writing=True)
        with self._writing.begin() as connection:
            command.upgrade(alembic_config(connection), "head")
        # A user's conversations belong to an agent of the user's own, and agents see their own alone. Given here, no
        # environment variable widens it.
        self._scroll = Backscroll.open(self._engine, settings=Settings(visibility=Visibility.AGENT))

    @contextmanager
    def transaction(self, *, writing: bool) -> Iterator[tuple[orm.Session, Backscroll]]:
        """The backend's rows and Backscroll's in one transaction: both are committed, or neither."""
        with orm.Session(self._writing if writing else self._engine) as db, db.begin():
            yield db, self._scroll.using(db)

    def close(self) -> None:
        """Ends Backscroll's background work, then closes every connection."""
        self._scroll.close()
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
