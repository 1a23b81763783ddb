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
    """Runs statements on a connection that is in a transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._driver = None if _is_heard(connection) else connection.connection

    def all(self, statement: str, parameters: Parameters = ()) -> Sequence[Sequence[Any]]:
        """Every row."""
        if self._driver is None:
            return self._connection.exec_driver_sql(statement, parameters).all()
        cursor = self._driver.cursor()
        cursor.execute(statement, parameters)
        rows = cursor.fetchall()
        cursor.close()
        return rows

    def first(self, statement: str, parameters: Parameters = ()) -> Sequence[Any] | None:
        """The first row; None if there is none."""
        if self._driver is None:
            return self._connection.exec_driver_sql(statement, parameters).first()
        cursor = self._driver.cursor()
        cursor.execute(statement, parameters)
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
            cursor = self._driver.cursor()
            cursor.execute(statement, parameters)
            cursor.close()

    def added(self, statement: str, parameters: Parameters = ()) -> int:
        """The key of the row that an INSERT stored."""
        if self._driver is None:
            return int(self._connection.exec_driver_sql(statement, parameters).lastrowid)
        cursor = self._driver.cursor()
        cursor.execute(statement, parameters)
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


def _is_heard(connection: sa.Connection) -> bool:
    # SQLAlchemy's own marks. One that it no longer has counts as set: then all goes through it.
    return bool(
        getattr(connection, "_has_events", True)
        or getattr(connection.engine, "_has_events", True)
        or getattr(connection.dialect, "_has_events", True)
        or getattr(connection, "_echo", True)
    )
