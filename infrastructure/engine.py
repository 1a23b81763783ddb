"""Connections: SQLite made safe for several processes, and transactions that begin when they say so.

Python's sqlite3 begins a transaction only before it writes, which breaks savepoints and makes a reader that turns
writer fail at once; so BEGIN is said here. Writers say BEGIN IMMEDIATE and wait for the write lock before they read.
"""

import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy import event, exc

from backscroll.domain.errors import BackscrollError, StoreUnavailable

_LOOK_AGAIN = 0.002
"""Seconds between a waiting writer's looks at the lock."""
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

    event.listen(engine, "connect", configuring(synchronous, cache_kib=16_384, memory=memory))
    return engine


def configuring(
    synchronous: str, *, cache_kib: int, memory: bool = False
) -> Callable[[sqlite3.Connection, object], None]:
    """What makes a new connection ready. The cache has room for the pages that the newest matches of a word stand on,
    so that they are looked up once."""

    def configure(connection: sqlite3.Connection, record: object) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute(f"PRAGMA synchronous = {synchronous}")
        cursor.execute(f"PRAGMA cache_size = -{cache_kib}")
        # Asked first: setting it where it is set already could wait for a lock.
        if not memory and cursor.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            cursor.execute("PRAGMA journal_mode = WAL")
        cursor.close()

    return configure


@contextmanager
def begun(engine: sa.Engine, *, writing: bool) -> Iterator[sa.Connection]:
    """A connection in a transaction of its own, rolled back unless the caller commits it."""
    with translated():
        connection = engine.connect()
        try:
            connection.begin()
            _say_begin(connection, writing=writing)
            yield connection
        finally:
            connection.close()


def _say_begin(connection: sa.Connection, *, writing: bool) -> None:
    driver = connection.connection.driver_connection
    begun_already = getattr(driver, "in_transaction", False)
    if begun_already and writing:
        # By the host's own listener, or by a driver that keeps a transaction open always (autocommit=False): nothing
        # has been read in it, and the write lock has to come before anything is.
        connection.exec_driver_sql("ROLLBACK")
    if writing and isinstance(driver, sqlite3.Connection):
        _take_lock(connection, driver)
    elif writing or not begun_already:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _take_lock(connection: sa.Connection, driver: sqlite3.Connection) -> None:
    """Says BEGIN IMMEDIATE, and waits for the lock no longer than the connection's busy timeout.

    SQLite's own handler looks ever more rarely, in the end every 100 ms: beside somebody who takes one short
    transaction after the other, as a reindexing does, it would hardly ever find the lock free.
    """
    (patience,) = driver.execute("PRAGMA busy_timeout").fetchone()
    driver.execute("PRAGMA busy_timeout = 0")
    end = time.monotonic() + patience / 1000
    try:
        while time.monotonic() < end and _is_locked(driver):
            time.sleep(_LOOK_AGAIN)
        if not driver.in_transaction:
            # Through SQLAlchemy, which makes an error of its own of what is wrong.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
    finally:
        driver.execute(f"PRAGMA busy_timeout = {patience}")


def _is_locked(driver: sqlite3.Connection) -> bool:
    """Tries to say BEGIN IMMEDIATE, and whether the lock is what it failed for."""
    try:
        driver.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
    return False


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
        raise _refused(error.orig) from error
    except exc.TimeoutError as error:
        raise StoreUnavailable("no database connection became free in time", locked=True) from error
    except sqlite3.Error as error:
        raise _refused(error) from error
    except exc.SQLAlchemyError as error:
        raise StoreUnavailable(f"the database layer failed: {type(error).__name__}") from error


def _refused(error: BaseException | None) -> StoreUnavailable:
    locked = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return StoreUnavailable(f"the database refused: {error}", locked=locked)
