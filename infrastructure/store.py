"""Units of work: one transaction each, on an engine of ours or inside a host's open transaction."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import exc

from backscroll.domain.errors import InvalidRequest, StoreUnavailable
from backscroll.domain.ports import Clock, NewId
from backscroll.infrastructure import bridge
from backscroll.infrastructure.engine import ensure_begun, small_cache, translated
from backscroll.infrastructure.frequencies import Frequencies
from backscroll.infrastructure.index import SqlIndex
from backscroll.infrastructure.sessions import SqlSessions
from backscroll.infrastructure.single import OneForAll
from backscroll.infrastructure.transaction import Transaction, transaction, within
from backscroll.infrastructure.tree import SqlMessages


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """What every unit of work of a store shares."""

    rank_bound: int
    inline_reindex_limit: int
    new_id: NewId
    clock: Clock
    patience: float = 10.0
    """Seconds that a writer on an event loop waits for the writers before it."""


class SqlUnitOfWork:
    """One transaction and the repositories in it."""

    def __init__(self, one: Transaction, options: StoreOptions, frequencies: Frequencies) -> None:
        self._transaction = one
        self.sessions = SqlSessions(one)
        self.messages = SqlMessages(one, options.inline_reindex_limit, options.new_id, options.clock)
        self.index = SqlIndex(one, options.rank_bound, frequencies)

    def sparing(self) -> AbstractContextManager[None]:
        """Inside, little of the database is kept in memory: for work that reads nothing twice."""
        return small_cache(self._transaction.connection.connection)

    def commit(self) -> None:
        """Makes the changes durable (inside a host's transaction: hands them to it)."""
        self._transaction.commit()


class EngineStore(OneForAll):
    """A store on an engine; each unit of work is a transaction of its own."""

    def __init__(self, engine: sa.Engine, options: StoreOptions) -> None:
        self._engine = engine
        self._options = options
        self._frequencies = Frequencies()
        self._turn = bridge.Turn(options.patience)
        self._closed = False

    def close(self) -> None:
        """Refuses every further unit of work with `StoreUnavailable`; those on their way go on."""
        self._closed = True

    @contextmanager
    def reading(self) -> Iterator[SqlUnitOfWork]:
        """A unit of work on one snapshot, which never takes the write lock."""
        with self._transaction(writing=False) as one:
            yield SqlUnitOfWork(one, self._options, self._frequencies)

    @contextmanager
    def writing(self) -> Iterator[SqlUnitOfWork]:
        """A unit of work that holds the write lock from its beginning."""
        with self._turn.taken(self._engine.dialect), self._transaction(writing=True) as one:
            yield SqlUnitOfWork(one, self._options, Frequencies(remember=0))

    def pause(self, seconds: float) -> None:
        """Waits, between two units of work."""
        bridge.pause(self._engine.dialect, seconds)

    def size(self) -> int:
        """The database's size in bytes, with its write-ahead log."""
        with self._transaction(writing=False) as one:
            pages = one.statements.scalar("PRAGMA page_count")
            page_size = one.statements.scalar("PRAGMA page_size")
            file = one.statements.scalar("SELECT file FROM pragma_database_list WHERE name = 'main'")
        log = Path(file + "-wal") if file else None
        return int(pages * page_size + (log.stat().st_size if log and log.exists() else 0))

    def tidy(self, *, vacuum: bool) -> None:
        """Lets the database collect its statistics and empty its log; with `vacuum` writes it anew without gaps."""
        with translated():
            # Past SQLAlchemy: none of these may run inside a transaction.
            pooled = self._engine.raw_connection()
            try:
                cursor = pooled.cursor()
                for statement in _TIDYING if vacuum else _TIDYING[1:]:
                    cursor.execute(statement)
                cursor.close()
            finally:
                pooled.close()

    def _transaction(self, *, writing: bool) -> AbstractContextManager[Transaction]:
        if self._closed:
            # An engine would simply connect again, and nobody would close that.
            raise StoreUnavailable("this store is closed")
        return transaction(self._engine, writing=writing)


_TIDYING = ("VACUUM", "PRAGMA optimize", "PRAGMA wal_checkpoint(TRUNCATE)")


class ConnectionStore(OneForAll):
    """A store inside a host's transaction; each unit of work is a savepoint in it, and none ends it.

    `connected` gives the connection whenever there is work: an `orm.Session` has one only while it is in a transaction.
    """

    def __init__(self, connected: Callable[[], sa.Connection], options: StoreOptions) -> None:
        self._connected = connected
        self._options = options

    @contextmanager
    def reading(self) -> Iterator[SqlUnitOfWork]:
        """A unit of work that sees what the host's transaction sees."""
        with self.writing() as unit:
            yield unit

    @contextmanager
    def writing(self) -> Iterator[SqlUnitOfWork]:
        """A unit of work in a savepoint of the host's transaction."""
        with translated():
            bridge.checkpoint()
            connection = self._connection()
            ensure_begun(connection)
            with _savepoint(connection) as savepoint, within(connection, savepoint.commit) as one:
                yield SqlUnitOfWork(one, self._options, Frequencies(remember=0))

    def pause(self, seconds: float) -> None:
        """Waits, between two units of work."""
        bridge.pause(self._connection().dialect, seconds)

    def size(self) -> int:
        """Not inside a host's transaction: raises `InvalidRequest`."""
        raise InvalidRequest("maintenance cannot run inside a host's transaction: use the facade that opened the store")

    def tidy(self, *, vacuum: bool) -> None:  # noqa: ARG002 - the port's signature
        """Not inside a host's transaction: raises `InvalidRequest`."""
        raise InvalidRequest("maintenance cannot run inside a host's transaction: use the facade that opened the store")

    def _connection(self) -> sa.Connection:
        try:
            return self._connected()
        except exc.UnboundExecutionError as error:
            raise InvalidRequest(
                "the session has no engine of its own: give using() its connection, session.connection(...)"
            ) from error


@contextmanager
def _savepoint(connection: sa.Connection) -> Iterator[sa.NestedTransaction]:
    """A savepoint, rolled back unless it is committed."""
    savepoint = connection.begin_nested()
    try:
        yield savepoint
    finally:
        if savepoint.is_active:
            savepoint.rollback()
