"""Connections: SQLite made safe for several processes, and transactions that begin when they say so.

Python's sqlite3 begins a transaction only before it writes, which breaks savepoints and makes a reader that turns
writer fail at once; so BEGIN is said here. Writers say BEGIN IMMEDIATE and wait for the write lock before they read.
"""

import logging
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import event, exc

from backscroll.domain.errors import StoreUnavailable
from backscroll.infrastructure import bridge

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

_CACHE_KIB = 16_384
_SMALL_CACHE_KIB = 2_048
_LOOK_AGAIN = 0.002
"""Seconds between a waiting writer's looks at the lock."""
_LONG = 1.0
"""Seconds of waiting for the lock that are worth a line in the log."""
_PATIENCE = "backscroll_busy_timeout"
_TELLING = ("pysqlite", "aiosqlite")
"""The drivers that pass on SQLite's error codes and tell whether a transaction is open."""
_PLAIN_MEMORY = re.compile(r"^(:memory:)?$")
_log = logging.getLogger("backscroll.lock")


def create_engine(url: str, *, busy_timeout: float, synchronous: str) -> sa.Engine:
    """An engine of our own for `url`.

    `busy_timeout` is in seconds; `synchronous` is SQLite's pragma: FULL keeps a committed message through a power
    cut, NORMAL may lose the last ones (never the store's consistency). Raises `StoreUnavailable` for a bad URL.
    """
    with _readable():
        parsed = _sqlite_url(url)
        if parsed.get_dialect().is_async:
            raise StoreUnavailable(f"{parsed.drivername} is a driver for event loops: use AsyncBackscroll")
        pool = sa.pool.QueuePool if _in_memory(parsed) else None
        engine = sa.create_engine(parsed, **_options(pool, busy_timeout))
    event.listen(engine, "connect", configuring(synchronous, cache_kib=_CACHE_KIB, log=pool is None))
    return engine


def create_async_engine(url: str, *, busy_timeout: float, synchronous: str) -> "AsyncEngine":
    """An engine of our own for event loops, as `create_engine` makes one; whatever driver `url` names, aiosqlite's.

    Raises `StoreUnavailable` for a bad URL.
    """
    from sqlalchemy.ext import asyncio

    with _readable():
        parsed = _sqlite_url(url).set(drivername="sqlite+aiosqlite")
        pool = sa.pool.AsyncAdaptedQueuePool if _in_memory(parsed) else None
        engine = asyncio.create_async_engine(parsed, **_options(pool, busy_timeout))
    event.listen(engine.sync_engine, "connect", configuring(synchronous, cache_kib=_CACHE_KIB, log=pool is None))

    @event.listens_for(engine.sync_engine, "do_connect")
    def _connect(dialect: sa.Dialect, record: object, args: list[Any], kwargs: dict[str, Any]) -> Any:
        # Interrupted, aiosqlite would let go of a connection without closing it.
        with bridge.uninterrupted():
            return dialect.connect(*args, **kwargs)

    return engine


def require_async() -> None:
    """Raises `StoreUnavailable` unless the packages are there that a store on an event loop needs."""
    for needed in ("aiosqlite", "greenlet"):
        try:
            import_module(needed)
        except ImportError as error:
            raise StoreUnavailable(
                f"AsyncBackscroll needs the package {needed}: pip install 'backscroll[async]'"
            ) from error


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (exc.ArgumentError, exc.NoSuchModuleError) as error:
        raise StoreUnavailable("the database URL cannot be read: use a form such as sqlite:///backscroll.db") from error


def _sqlite_url(url: str) -> sa.URL:
    parsed = sa.make_url(url)
    if parsed.get_backend_name() != "sqlite":
        raise StoreUnavailable(f"no storage for {parsed.get_backend_name()!r} databases: use a sqlite:/// URL")
    return parsed


def _in_memory(url: sa.URL) -> bool:
    return bool(_PLAIN_MEMORY.match(url.database or ""))


def _options(pool: type[sa.Pool] | None, busy_timeout: float) -> dict[str, Any]:
    arguments = {"timeout": busy_timeout, "check_same_thread": False}
    # A database in memory lives in one connection, which its users then take in turns.
    one = {"poolclass": pool, "pool_size": 1, "max_overflow": 0} if pool is not None else {}
    return {"connect_args": arguments, **one}


def configuring(synchronous: str, *, cache_kib: int, log: bool = True) -> Callable[[Any, object], None]:
    """What makes a new connection ready, with a write-ahead log if there is a file for it.

    The cache has room for the pages that the newest matches of a word stand on, so that they are looked up once.
    """

    def configure(connection: Any, record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute(f"PRAGMA synchronous = {synchronous}")
        cursor.execute(f"PRAGMA cache_size = -{cache_kib}")
        cursor.execute("PRAGMA busy_timeout")
        record.info[_PATIENCE] = cursor.fetchone()[0]
        if log:
            # Asked first: setting it where it is set already could wait for a lock.
            cursor.execute("PRAGMA journal_mode")
            if cursor.fetchone() != ("wal",):
                cursor.execute("PRAGMA journal_mode = WAL")
        cursor.close()

    return configure


@contextmanager
def begun(engine: sa.Engine, *, writing: bool) -> Iterator[sa.Connection]:
    """A connection in a transaction of its own, rolled back unless the caller commits it."""
    with translated():
        with bridge.interruptible():
            connection = engine.connect()
        try:
            bridge.checkpoint()
            connection.begin()
            _say_begin(connection, writing=writing)
            yield connection
        finally:
            connection.close()


def tells(dialect: sa.Dialect) -> bool:
    """Whether the driver passes on SQLite's error codes and says whether a transaction is open."""
    return dialect.driver in _TELLING


def _say_begin(connection: sa.Connection, *, writing: bool) -> None:
    if tells(connection.dialect):
        begin(connection.connection, connection.dialect, writing=writing)
    else:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def begin(connection: sa.PoolProxiedConnection, dialect: sa.Dialect, *, writing: bool) -> None:
    """Begins a transaction on the connection of a driver that tells; to write, once the write lock is free."""
    driver = connection.driver_connection
    if getattr(driver, "autocommit", None) is True:
        # The driver's commit and rollback do nothing then.
        raise StoreUnavailable("the engine's connections have autocommit=True, which ends no transaction: leave it out")
    begun_already = getattr(driver, "in_transaction", False)
    if begun_already and writing:
        # By the host's own listener, or by a driver that keeps a transaction open always (autocommit=False): nothing
        # has been read in it, and the write lock has to come before anything is.
        _told(connection, "ROLLBACK")
    if writing:
        _take_lock(connection, dialect)
    elif not begun_already:
        _told(connection, "BEGIN")


def _take_lock(connection: sa.PoolProxiedConnection, dialect: sa.Dialect) -> None:
    """Says BEGIN IMMEDIATE, and waits for the lock no longer than the connection's busy timeout.

    SQLite's own handler looks ever more rarely, in the end every 100 ms: beside somebody who takes one short
    transaction after the other, as a reindexing does, it would hardly ever find the lock free.
    """
    # Of a connection of our own it is known, since nobody else changes it.
    patience = connection.info.get(_PATIENCE)
    if patience is None:
        (patience,) = _told(connection, "PRAGMA busy_timeout")
    _told(connection, "PRAGMA busy_timeout = 0")
    start = time.monotonic()
    end = start + patience / 1000
    try:
        while time.monotonic() < end and _is_locked(connection):
            bridge.pause(dialect, _LOOK_AGAIN)
        if not _in_transaction(connection):
            _told(connection, "BEGIN IMMEDIATE")
    finally:
        _set_back(connection, f"PRAGMA busy_timeout = {patience}")
        if (waited := time.monotonic() - start) > _LONG:
            _log.warning("waited %.1f s for the write lock", waited)


def _told(connection: sa.PoolProxiedConnection, statement: str) -> Any:
    """The first row that the driver gives for a statement."""
    cursor = connection.cursor()
    try:
        cursor.execute(statement)
        return cursor.fetchone()
    finally:
        cursor.close()


@contextmanager
def small_cache(connection: sa.PoolProxiedConnection) -> Iterator[None]:
    """Lets a connection keep fewer pages of the database in memory, where it may keep many."""
    (kib,) = _told(connection, "PRAGMA cache_size")
    # Below zero it is in KiB, else in pages, as somebody else wished.
    _told(connection, f"PRAGMA cache_size = {max(kib, -_SMALL_CACHE_KIB) if kib < 0 else kib}")
    try:
        yield
    finally:
        _set_back(connection, f"PRAGMA cache_size = {kib}")


def _set_back(connection: sa.PoolProxiedConnection, pragma: str) -> None:
    """Gives a connection its own setting again."""
    # SQLAlchemy drops one on which a statement of its own was interrupted.
    if connection.is_valid:
        _told(connection, pragma)


def _is_locked(connection: sa.PoolProxiedConnection) -> bool:
    """Tries to say BEGIN IMMEDIATE, and whether the lock is what it failed for."""
    try:
        _told(connection, "BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
    return False


def _in_transaction(connection: sa.PoolProxiedConnection) -> bool:
    return bool(getattr(connection.driver_connection, "in_transaction", False))


def ensure_begun(connection: sa.Connection, *, writing: bool = False) -> None:
    """Sees to it that a host's connection really is inside a transaction, so that savepoints nest in it.

    With `writing` one that begins here waits for the write lock at once.
    """
    if not connection.in_transaction():
        connection.begin()
    # Of another driver nobody knows, and it is left as it is.
    if tells(connection.dialect) and not _in_transaction(connection.connection):
        begin(connection.connection, connection.dialect, writing=writing)


class _Translated:
    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and (ours := _in_our_words(error)) is not None:
            raise ours from error


_TRANSLATED = _Translated()


def translated() -> AbstractContextManager[None]:
    """Turns SQLAlchemy's errors into ours; the text of statements and parameters stays out of it."""
    return _TRANSLATED


def _in_our_words(error: BaseException) -> StoreUnavailable | None:
    match error:
        case exc.DBAPIError():
            # Also where somebody logs what was the cause.
            error.hide_parameters = True
            return _refused(error.orig)
        case exc.TimeoutError():
            return StoreUnavailable("no database connection became free in time", locked=True)
        case sqlite3.Error():
            return _refused(error)
        case exc.SQLAlchemyError():
            return StoreUnavailable(f"the database layer failed: {type(error).__name__}")
    return None


def _refused(error: BaseException | None) -> StoreUnavailable:
    locked = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return StoreUnavailable(f"the database refused: {error}", locked=locked)
