"""One transaction of a unit of work: its connection, and mapped rows for whoever needs them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Self

import sqlalchemy as sa

from backscroll.infrastructure import bridge
from backscroll.infrastructure.engine import begin, begun, tells, translated
from backscroll.infrastructure.hooks import IndexedSession
from backscroll.infrastructure.statements import Statements, past_it


class Transaction:
    """What the repositories of a unit of work share; `commit` ends it for good, and whoever began it undoes the rest.

    Most work needs plain rows alone (`statements`). SQLAlchemy's connection and an `orm.Session` on it take longer to
    make than some rows to read: so they are made when something first asks for them.
    """

    def __init__(
        self, statements: Statements, connect: Callable[[], sa.Connection], commit: Callable[[], None]
    ) -> None:
        self.statements = statements
        self._connect = connect
        self._commit = commit
        self._session: IndexedSession | None = None

    @property
    def connection(self) -> sa.Connection:
        """SQLAlchemy's connection."""
        return self._connect()

    @property
    def session(self) -> IndexedSession:
        """The session whose flushes carry the index along."""
        if self._session is None:
            self._session = IndexedSession(
                self.connection, autoflush=False, expire_on_commit=False, join_transaction_mode="control_fully"
            )
        return self._session

    def commit(self) -> None:
        """Makes the changes durable, or hands them to the transaction around this one."""
        if self._session is not None:
            self._session.flush()
        # Here and not in the commit, past which nothing can be called off any more.
        bridge.checkpoint()
        self._commit()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        """Forgets the mapped rows."""
        if self._session is not None:
            self._session.close()


def within(connection: sa.Connection, commit: Callable[[], None]) -> Transaction:
    """A transaction that was begun on SQLAlchemy's `connection` and that `commit` commits."""
    return Transaction(Statements(connection), lambda: connection, commit)


def transaction(engine: sa.Engine, *, writing: bool) -> AbstractContextManager[Transaction]:
    """A transaction of its own on a connection of the engine's pool, rolled back unless it is committed."""
    if past_it(engine) and tells(engine.dialect):
        return _past_sqlalchemy(engine, writing=writing)
    return _through_sqlalchemy(engine, writing=writing)


@contextmanager
def _through_sqlalchemy(engine: sa.Engine, *, writing: bool) -> Iterator[Transaction]:
    with begun(engine, writing=writing) as connection, within(connection, connection.commit) as one:
        yield one


@contextmanager
def _past_sqlalchemy(engine: sa.Engine, *, writing: bool) -> Iterator[Transaction]:
    # To make SQLAlchemy's connection around the pool's, and to begin and close that, takes as long as some reads.
    with translated():
        with bridge.interruptible():
            connection = engine.raw_connection()
        try:
            bridge.checkpoint()
            begin(connection, engine.dialect, writing=writing)
            around = _Around(engine, connection)
            with Transaction(Statements(connection), around.connection, around.commit) as one:
                yield one
        finally:
            try:
                # The pool does so too, unless somebody told it not to.
                if (driver := connection.dbapi_connection) is not None:
                    driver.rollback()
            finally:
                connection.close()


class _Around:
    """SQLAlchemy's connection around the driver's, if somebody asks for it."""

    def __init__(self, engine: sa.Engine, driver: sa.PoolProxiedConnection) -> None:
        self._engine = engine
        self._driver = driver
        self._made: sa.Connection | None = None

    def connection(self) -> sa.Connection:
        if self._made is None:
            self._made = sa.Connection(self._engine, self._driver)
            self._made.begin()
        return self._made

    def commit(self) -> None:
        (self._driver if self._made is None else self._made).commit()
