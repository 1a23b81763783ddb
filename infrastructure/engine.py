"""Connections: SQLite made safe for several processes, and transactions that begin when they say so.

Python's sqlite3 begins a transaction only before it writes, which breaks savepoints and makes a reader that turns
writer fail at once; so BEGIN is said here. Writers say BEGIN IMMEDIATE and wait for the write lock before they read.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy import event, exc

from backscroll.domain.errors import BackscrollError, StoreUnavailable

_WRITING = "backscroll_writing"
_PLAIN_MEMORY = re.compile(r"^(:memory:)?$")


def create_engine(url: str, *, busy_timeout: float, synchronous: str) -> sa.Engine:
    """An engine of our own for `url`.

    `busy_timeout` is in seconds; `synchronous` is SQLite's pragma: FULL keeps a committed message through a power
    cut, NORMAL may lose the last ones (never the store's consistency). Raises `StoreUnavailable` for a bad URL.
    """
    try:
        parsed = sa.make_url(url)
        if parsed.get_backend_name() != "sqlite":
            raise StoreUnavailable(f"no storage for {parsed.get_backend_name()!r} databases: use a sqlite:/// URL")
        memory = bool(_PLAIN_MEMORY.match(parsed.database or ""))
        # A database in memory lives in one connection, which its users then take in turns.
        one = {"poolclass": sa.pool.QueuePool, "pool_size": 1, "max_overflow": 0} if memory else {}
        arguments = {"timeout": busy_timeout, "check_same_thread": False}
        engine = sa.create_engine(parsed, connect_args=arguments, **one)
    except (exc.ArgumentError, exc.NoSuchModuleError) as error:
        raise StoreUnavailable("the database URL cannot be read: use a form such as sqlite:///backscroll.db") from error

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, record: object) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute(f"PRAGMA synchronous = {synchronous}")
        # Asked first: setting it where it is set already could wait for a lock.
        if not memory and cursor.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            cursor.execute("PRAGMA journal_mode = WAL")
        cursor.close()

    return with_begin(engine)


def with_begin(engine: sa.Engine) -> sa.Engine:
    """The same engine and pool, seen so that our transactions begin explicitly; a host's use of it stays as it is."""
    ours = engine.execution_options()

    @event.listens_for(ours, "begin")
    def _begin(connection: sa.Connection) -> None:
        writing = bool(connection.get_execution_options().get(_WRITING))
        driver = connection.connection.driver_connection
        if not getattr(driver, "in_transaction", False):
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
        elif writing:
            # The driver keeps a transaction open always (autocommit=False): take the lock before anything is read.
            connection.exec_driver_sql("UPDATE backscroll_index_state SET id = id WHERE 0")

    return ours


@contextmanager
def begun(engine: sa.Engine, *, writing: bool) -> Iterator[sa.Connection]:
    """A connection in a transaction of its own, rolled back unless the caller commits it."""
    with translated():
        connection = engine.connect()
        try:
            if writing:
                connection = connection.execution_options(**{_WRITING: True})
            connection.begin()
            yield connection
        finally:
            connection.close()


def ensure_begun(connection: sa.Connection) -> None:
    """Sees to it that a host's connection really is inside a transaction, so that savepoints nest in it."""
    if not connection.in_transaction():
        connection.begin()
    driver = connection.connection.driver_connection
    if isinstance(driver, sqlite3.Connection) and not driver.in_transaction:
        connection.exec_driver_sql("BEGIN")


@contextmanager
def translated() -> Iterator[None]:
    """Turns SQLAlchemy's errors into ours; the text of statements and parameters stays out of it."""
    try:
        yield
    except BackscrollError:
        raise
    except exc.DBAPIError as error:
        raise StoreUnavailable(f"the database refused: {error.orig}") from error
    except exc.TimeoutError as error:
        raise StoreUnavailable("no database connection became free in time") from error
    except exc.SQLAlchemyError as error:
        raise StoreUnavailable(f"the database layer failed: {type(error).__name__}") from error
