"""One transaction of a unit of work: its connection, and mapped rows for whoever needs them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from backscroll.infrastructure import bridge
from backscroll.infrastructure.hooks import IndexedSession
from backscroll.infrastructure.statements import Statements


class Transaction:
    """What the repositories of a unit of work share; `commit` ends it for good, and whoever began it undoes the rest.

    Most work needs plain rows alone (`statements`), and making an `orm.Session` takes longer than reading some: so it
    is made when something first asks for it.
    """

    def __init__(self, connection: sa.Connection, commit: Callable[[], None]) -> None:
        self.connection = connection
        self.statements = Statements(connection)
        self._commit = commit
        self._session: IndexedSession | None = None

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

    def close(self) -> None:
        """Forgets the mapped rows."""
        if self._session is not None:
            self._session.close()


@contextmanager
def transaction(connection: sa.Connection, commit: Callable[[], None]) -> Iterator[Transaction]:
    """A transaction that was begun on `connection` and that `commit` commits."""
    one = Transaction(connection, commit)
    try:
        yield one
    finally:
        one.close()
