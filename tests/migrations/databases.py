"""Database files for the tests of migrations: made by SQL, looked at by SQL."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from backscroll.infrastructure.engine import begun, create_engine
from backscroll.infrastructure.rows import VERSION_TABLE


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def at_revision(path: Path, change: Callable[[sa.Connection], None]) -> None:
    """Changes the schema of a file in a transaction."""
    engine = create_engine(url(path), busy_timeout=5, synchronous="NORMAL")
    with begun(engine, writing=True) as connection:
        change(connection)
        connection.commit()
    engine.dispose()


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type <> 'index'")}


def revision_of(path: Path) -> str | None:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()[0]


def dump(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """The transcripts: every row of the tables of revision 1, in its columns."""
    with closing(sqlite3.connect(path)) as connection:
        return {
            table: connection.execute(f"SELECT {columns} FROM backscroll_{table} ORDER BY id").fetchall()
            for table, columns in COLUMNS.items()
        }


# A real file of revision 1, written by SQL alone.

COLUMNS = {
    "agents": "id, agent_id",
    "sessions": (
        "id, session_key, agent_pk, kind, title, spawned_by, owner, incognito, created_at, updated_at, metadata"
    ),
    "transcripts": "id, session_pk, session_id, started_at, is_current, reason",
    "messages": (
        "id, transcript_pk, message_id, parent_pk, reset_pk, depth, shown, role, active, created_at, text, parts,"
        " metadata"
    ),
    "branches": "id, transcript_pk, branch_id, head_pk, reset_pk, active, created_at",
    "resets": (
        "id, transcript_pk, reset_id, previous_pk, after_pk, depth, shown, first_kept_pk, first_kept_depth, kept,"
        " reason, active, created_at"
    ),
}
T = 1_767_225_600_000_000
TOOL_PARTS = '[{"type":"tool_result","text":"tool output sodium"}]'
ROWS: dict[str, list[tuple[object, ...]]] = {
    "agents": [(1, "main"), (2, "ops")],
    "sessions": [
        (1, "agent:main:main", 1, "main", "Trip", None, None, 0, T, T + 9, "{}"),
        (2, "agent:ops:cron:1", 2, "cron", None, "agent:main:main", None, 0, T, T + 1, '{"a":1}'),
        (3, "agent:main:private", 1, "other", None, None, None, 1, T, T, "{}"),
    ],
    "transcripts": [
        (1, 1, "old", T, 0, None),
        (2, 1, "new", T, 1, "daily"),
        (3, 2, "ops-run", T, 1, None),
        (4, 3, "hidden", T, 1, None),
    ],
    "messages": [
        # The old transcript: one branch left behind, a reset that kept m2.
        (1, 1, "m1", None, None, 1, 1, "user", 1, T + 1, "book the ferry to Naxos", None, None),
        (2, 1, "m2", 1, None, 2, 2, "assistant", 1, T + 2, "后天上午我们检查备份策略", None, None),
        (3, 1, "m3", 2, None, 3, 2, "tool", 1, T + 3, "", TOOL_PARTS, None),
        (4, 1, "m4", 3, 1, 4, 3, "user", 1, T + 4, "granite after the reset", None, '{"k":"v"}'),
        (5, 1, "x3", 2, None, 3, 3, "user", 0, T + 5, "abandoned limestone", None, None),
        (6, 2, "n1", None, None, 1, 1, "user", 1, T + 6, "İstanbul and Straße", None, None),
        (7, 3, "o1", None, None, 1, 1, "user", 1, T + 7, "nightly granite report", None, None),
        (8, 4, "p1", None, None, 1, 1, "user", 1, T + 8, "heliotrope granite", None, None),
    ],
    "branches": [
        (1, 1, "b1", 4, 1, 1, T),
        (2, 1, "b2", 5, None, 0, T),
        (3, 2, "b3", 6, None, 1, T),
        (4, 3, "b4", 7, None, 1, T),
        (5, 4, "b5", 8, None, 1, T),
    ],
    "resets": [(1, 1, "r1", None, 3, 3, 2, 2, 2, 1, "idle", 1, T + 3)],
}


def write_rows(path: Path, rows: dict[str, list[tuple[object, ...]]]) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, values in rows.items():
            marks = ", ".join("?" for _ in COLUMNS[table].split(", "))
            connection.executemany(f"INSERT INTO backscroll_{table} ({COLUMNS[table]}) VALUES ({marks})", values)


def rows(path: Path, left_out: set[str] = frozenset()) -> dict[str, list[dict[str, object]]]:
    """Every row of our tables, in every column but those left out; the counters of used keys too."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'backscroll_*'"
        tables = {name for (name,) in connection.execute(names) if "message_index" not in name} | {"sqlite_sequence"}
        found = {
            table: [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1")]
            for table in sorted(tables - left_out)
        }
    return {
        table: [{name: value for name, value in row.items() if name not in left_out} for row in those]
        for table, those in found.items()
    }


def schema(path: Path) -> set[tuple[str, ...]]:
    """Tables, indexes, triggers and views with their statements, white space and quotes aside."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master").fetchall()
    return {(kind, name, " ".join(statement.replace('"', "").split())) for kind, name, statement in found}
