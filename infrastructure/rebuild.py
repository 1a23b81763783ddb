"""A table made anew, for revisions: Alembic's batch mode without its losses.

SQLite changes constraints and types only by a new table: the rows are copied, the old table is dropped, the new one
takes its name. That drops triggers and the counter of used keys with it, fails over views that name the table, and,
where foreign keys are on, deletes the rows of other tables that refer to it. Foreign keys cannot be turned off inside
a transaction, and the transaction may be a host's.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from alembic.operations import BatchOperations

from alembic import op
from backscroll.infrastructure.engine import ensure_begun

# Turns a key into one that no row has, and back: while the old table is dropped, nothing refers to its rows.
_PARK = "CASE typeof({0}) WHEN 'text' THEN char(1) || {0} ELSE ~{0} END"
_UNPARK = "CASE typeof({0}) WHEN 'text' THEN substr({0}, 2) ELSE ~{0} END"


@contextmanager
def rebuilt(table: str) -> Iterator[BatchOperations]:
    """Alembic's `batch_alter_table`, in a transaction that it begins if there is none.

    Keeps every row of every table, the table's triggers, indexes and used keys, and all views, with foreign keys on or
    off. Triggers come back as they were: one that has to change is dropped and created after the block. It takes time
    in proportion to the table, and to those that refer to it where foreign keys are on.
    """
    connection = op.get_bind()
    ensure_begun(connection)
    (statement,) = connection.exec_driver_sql(
        "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
    ).one()
    never_reused = "AUTOINCREMENT" in statement.upper()
    used = connection.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).scalar()
    references = _references(connection, table) if _pragma(connection, "foreign_keys") else []
    triggers = _triggers(connection, {name.lower() for name in (table, *(child for child, _ in references))})
    for name, _ in triggers:
        connection.exec_driver_sql(f"DROP TRIGGER {_quoted(name)}")
    # Deferred: parked keys refer to nothing until they are back. Legacy: no look at views while the table is away.
    with _set(connection, "defer_foreign_keys"), _set(connection, "legacy_alter_table"):
        _rewrite(connection, references, _PARK)
        with op.batch_alter_table(
            table, recreate="always", table_kwargs={"sqlite_autoincrement": never_reused}
        ) as batch:
            yield batch
        _rewrite(connection, references, _UNPARK)
    if used is not None:
        connection.exec_driver_sql("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        connection.exec_driver_sql("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, used))
    for _, created in triggers:
        connection.exec_driver_sql(created)


def _references(connection: sa.Connection, table: str) -> list[tuple[str, str]]:
    """The other tables' columns that refer to this one."""
    rows = connection.exec_driver_sql(
        'SELECT m.name, f."from" FROM sqlite_master AS m, pragma_foreign_key_list(m.name) AS f'
        " WHERE m.type = 'table' AND lower(f.\"table\") = lower(?) AND m.name <> ?",
        (table, table),
    )
    return sorted({(child, column) for child, column in rows})


def _rewrite(connection: sa.Connection, references: list[tuple[str, str]], change: str) -> None:
    for child, column in references:
        name = _quoted(column)
        connection.exec_driver_sql(
            f"UPDATE {_quoted(child)} SET {name} = {change.format(name)} WHERE {name} IS NOT NULL"
        )


def _triggers(connection: sa.Connection, tables: set[str]) -> list[tuple[str, str]]:
    """Names and statements, in the order in which they were made; each says its table's name in its own case."""
    rows = connection.exec_driver_sql("SELECT name, sql, tbl_name FROM sqlite_master WHERE type = 'trigger'")
    return [(name, statement) for name, statement, of in rows if of.lower() in tables]


@contextmanager
def _set(connection: sa.Connection, pragma: str) -> Iterator[None]:
    before = _pragma(connection, pragma)
    connection.exec_driver_sql(f"PRAGMA {pragma} = ON")
    try:
        yield
    finally:
        connection.exec_driver_sql(f"PRAGMA {pragma} = {before}")


def _pragma(connection: sa.Connection, name: str) -> int:
    return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
