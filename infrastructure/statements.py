"""Statements as text, answered by plain tuples: what every hot path runs.

SQLAlchemy takes longer over a statement of its own than SQLite does over most of these. So they are handed to the
driver of the same connection, inside the same transaction; but where somebody listens to that connection's statements
(events, `echo`, a tracer) they go through SQLAlchemy, and nothing is hidden from him.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

DATABASE_ERRORS = (sqlite3.DatabaseError, exc.DatabaseError)
"""What a statement may raise: the driver's own error, or SQLAlchemy's around it."""
Parameters = Sequence[Any] | Mapping[str, Any]
"""By place or by name, as the statement has them."""


class Statements:
    """Runs statements on a connection that is in a transaction: SQLAlchemy's, or the driver's as the pool gives it."""

    def __init__(self, connection: sa.Connection | sa.PoolProxiedConnection) -> None:
        self._connection: Any = connection
        # The driver's, whose own `execute` makes a cursor; None: all goes through SQLAlchemy's.
        self._driver: Any = None
        if not isinstance(connection, sa.Connection):
            self._driver = connection.dbapi_connection
        elif past_it(connection.engine) and not _is_heard(connection):
            self._driver = connection.connection.dbapi_connection

    def all(self, statement: str, parameters: Parameters = ()) -> Sequence[Sequence[Any]]:
        """Every row."""
        if self._driver is None:
            return list(self._connection.exec_driver_sql(statement, parameters).all())
        cursor = self._driver.execute(statement, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        cursor.close()
        return rows

    def first(self, statement: str, parameters: Parameters = ()) -> Sequence[Any] | None:
        """The first row; None if there is none."""
        row: Sequence[Any] | None
        if self._driver is None:
            row = self._connection.exec_driver_sql(statement, parameters).first()
        else:
            cursor = self._driver.execute(statement, parameters)
            row = cursor.fetchone()
            cursor.close()
        return row

    def scalar(self, statement: str, parameters: Parameters = ()) -> Any:
        """The first column of the first row; None if there is none."""
        row = self.first(statement, parameters)
        return None if row is None else row[0]

    def run(self, statement: str, parameters: Parameters = ()) -> None:
        """A statement without a result."""
        if self._driver is None:
            self._connection.exec_driver_sql(statement, parameters)
        else:
            self._driver.execute(statement, parameters).close()

    def added(self, statement: str, parameters: Parameters = ()) -> int:
        """The key of the row that an INSERT stored."""
        if self._driver is None:
            return int(self._connection.exec_driver_sql(statement, parameters).lastrowid)
        cursor = self._driver.execute(statement, parameters)
        key: int = cursor.lastrowid
        cursor.close()
        return key

    def run_many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """A statement without a result, once for each of the rows."""
        if self._driver is None:
            self._connection.exec_driver_sql(statement, list(rows))
        else:
            cursor = self._driver.cursor()
            cursor.executemany(statement, rows)
            cursor.close()


def past_it(engine: sa.Engine) -> bool:
    """Whether statements on this engine may go past SQLAlchemy: nobody listens to what all its connections do.

    On an event loop nothing does: a cancelled call leaves a cursor behind, which SQLAlchemy knows how to tidy up.
    """
    # SQLAlchemy's own marks. One that it no longer has counts as set.
    return not (
        engine.dialect.is_async
        or getattr(sa.Connection, "_has_events", True)
        or getattr(engine, "_has_events", True)
        or getattr(engine.dialect, "_has_events", True)
        or getattr(engine, "_should_log_info", _always)()
    )


def _is_heard(connection: sa.Connection) -> bool:
    return bool(getattr(connection, "_has_events", True) or getattr(connection, "_echo", True))


def _always() -> bool:
    return True
