"""Whether index and transcripts agree, and making them agree from what the tree of messages says."""

import sqlite3
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc, orm

from backscroll.domain.ports import Progress
from backscroll.domain.results import Problem
from backscroll.infrastructure import bodies, fts, schema, times
from backscroll.infrastructure.bridge import paced
from backscroll.infrastructure.hooks import wanted
from backscroll.infrastructure.pending import leave_all_pending
from backscroll.infrastructure.rows import (
    PREFIX,
    IndexStateRow,
    MessageRow,
    PendingRow,
    SessionRow,
    TranscriptRow,
)
from backscroll.infrastructure.statements import Statements

_BATCH = 1_000

# Each statement gives (session key, number of rows that disagree). Together the rules of the path say that the active
# messages of a transcript are exactly the line from the root to its active branch's head.
_RULES = {
    "an active message whose parent is not active, or not one step above": """
        SELECT s.session_key, count(*) FROM backscroll_messages AS m {home}
        LEFT JOIN backscroll_messages AS p ON p.id = m.parent_pk AND p.transcript_pk = m.transcript_pk
        WHERE m.active = 1 AND m.depth > 1 AND (p.id IS NULL OR p.active <> 1 OR p.depth <> m.depth - 1)
        GROUP BY s.id""",
    "an active path that does not end in its branch's head": """
        SELECT s.session_key, 1 FROM backscroll_branches AS b
        JOIN backscroll_transcripts AS t ON t.id = b.transcript_pk
        JOIN backscroll_sessions AS s ON s.id = t.session_pk
        LEFT JOIN backscroll_messages AS h ON h.id = b.head_pk
        WHERE b.active = 1 AND (
            (SELECT count(*) FROM backscroll_messages AS m WHERE m.transcript_pk = b.transcript_pk AND m.active = 1)
            <> coalesce(h.depth, 0) OR coalesce(h.active, 1) <> 1)""",
    "a message whose place in its tree is wrong": """
        SELECT s.session_key, count(*) FROM backscroll_messages AS m {home}
        LEFT JOIN backscroll_messages AS p ON p.id = m.parent_pk
        WHERE m.depth <> coalesce(p.depth, 0) + 1 OR m.shown <> coalesce(p.shown, 0) + (m.role <> 'tool')
           OR (m.parent_pk IS NOT NULL AND (p.id IS NULL OR p.transcript_pk <> m.transcript_pk))
        GROUP BY s.id""",
    "an active reset that does not stand on the active path": """
        SELECT s.session_key, count(*) FROM backscroll_resets AS m {home}
        LEFT JOIN backscroll_messages AS a ON a.id = m.after_pk
        WHERE m.active = 1 AND (coalesce(a.active, 1) <> 1 OR coalesce(a.depth, 0) <> m.depth)
        GROUP BY s.id""",
    "a transcript without exactly one active branch": """
        SELECT s.session_key, 1 FROM backscroll_transcripts AS t JOIN backscroll_sessions AS s ON s.id = t.session_pk
        WHERE (SELECT count(*) FROM backscroll_branches AS b WHERE b.transcript_pk = t.id AND b.active = 1) <> 1""",
    "a session without exactly one current transcript": """
        SELECT s.session_key, 1 FROM backscroll_sessions AS s
        WHERE (SELECT count(*) FROM backscroll_transcripts AS t WHERE t.session_pk = s.id AND t.is_current = 1) <> 1""",
}
_HOME = """JOIN backscroll_transcripts AS t ON t.id = m.transcript_pk
        JOIN backscroll_sessions AS s ON s.id = t.session_pk"""
_TELLING = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT)
"""The results that speak of the index. Others, such as a read-only file's, say nothing of it."""
_TABLES = ("sessions", "transcripts", "messages", "branches", "resets", "pending", "times")


def integrity(connection: sa.Connection) -> Problem | None:
    """What FTS5's strict check finds wrong; it counts as a write for SQLite and is undone."""
    try:
        with connection.begin_nested() as trial:
            fts.check(connection)
            trial.rollback()
    except exc.DatabaseError as error:
        if getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF not in _TELLING:
            raise
        return Problem(what=f"the index does not hold what its rows say ({error.orig})")
    return None


def problems(session: orm.Session, progress: Progress | None) -> Iterator[Problem]:
    """Everything else that disagrees, session by session; nothing is changed."""
    connection = session.connection()
    if damage := list(_damaged(connection)):
        # What else would be said of unreadable tables means nothing.
        yield from damage
        return
    for lost in schema.lacking(connection):
        yield Problem(what=f"the schema lacks {lost}, or has another of that name")
    yield from _unfindable(connection)
    for what, statement in _RULES.items():
        for session_key, rows in connection.execute(sa.text(statement.format(home=_HOME))):
            yield Problem(what=what, session_key=session_key, rows=rows)
    if undated := connection.exec_driver_sql(times.UNDATED).scalar():
        yield Problem(what="messages that are newer than any of their block should be", rows=undated)
    for table in _TABLES:
        broken = connection.exec_driver_sql(f"PRAGMA foreign_key_check({PREFIX}{table})").all()
        if broken:
            yield Problem(what=f"rows of {PREFIX}{table} that refer to nothing", rows=len(broken))
    yield from _misfiled(session, progress)


def _damaged(connection: sa.Connection) -> Iterator[Problem]:
    """What SQLite finds wrong with the pages of our tables and of their indexes."""
    for table in _TABLES:
        try:
            found = connection.exec_driver_sql(f"PRAGMA integrity_check({PREFIX}{table})").scalars().all()
        except exc.DatabaseError as error:
            found = [str(error.orig)]
        if found != ["ok"]:
            yield Problem(what=f"{PREFIX}{table} is damaged ({found[0].strip()})", rows=len(found))


def _unfindable(connection: sa.Connection) -> Iterator[Problem]:
    """Sessions of which the index does not find exactly the messages that are marked as indexed, by their token."""
    for session_pk, session_key in connection.exec_driver_sql("SELECT id, session_key FROM backscroll_sessions").all():
        try:
            found = set(connection.exec_driver_sql(_BY_TOKEN, (f"{{scope}} : s{session_pk}",)).scalars())
        except exc.DatabaseError:
            # The strict check says why.
            yield Problem(what="the index cannot be read", session_key=session_key)
            continue
        if astray := found.symmetric_difference(connection.exec_driver_sql(_MARKED, (session_pk,)).scalars()):
            yield Problem(what="index rows that are missing or left over", session_key=session_key, rows=len(astray))


_MARKED = """SELECT m.id FROM backscroll_transcripts AS t JOIN backscroll_messages AS m ON m.transcript_pk = t.id
    WHERE t.session_pk = ? AND m.indexed = 1"""
_BY_TOKEN = f"SELECT rowid FROM {fts.INDEX} WHERE {fts.INDEX} MATCH ?"


def _misfiled(session: orm.Session, progress: Progress | None) -> Iterator[Problem]:
    """Messages of transcripts that do not wait for reindexing, but are not indexed as they should be."""
    legacy = session.scalar(sa.select(IndexStateRow.legacy_pk))
    if legacy is None:
        yield Problem(what=f"{PREFIX}index_state does not hold its one row")
        legacy = 0
    waiting = set(session.scalars(sa.select(PendingRow.transcript_pk)))
    counts: dict[tuple[str, str], int] = {}
    for row in _all_messages(session, progress):
        if row.transcript_pk in waiting or row.transcript_pk <= legacy:
            continue
        indexed, _ = wanted(row.role, row.active and not row.incognito, row.text)
        if indexed != bool(row.indexed):
            what = "a message that is missing in the index" if indexed else "a message that should not be in the index"
        elif indexed and not bodies.is_right(row.text, row.search_text):
            what = "a message that is indexed by another text than its own"
        else:
            continue
        counts[what, row.session_key] = counts.get((what, row.session_key), 0) + 1
    for (what, session_key), rows in counts.items():
        yield Problem(what=what, session_key=session_key, rows=rows)


def _all_messages(session: orm.Session, progress: Progress | None) -> Iterator[Any]:
    total = session.scalars(sa.select(sa.func.count()).select_from(MessageRow)).one()
    statement = (
        sa.select(
            MessageRow.id,
            MessageRow.transcript_pk,
            MessageRow.role,
            MessageRow.active,
            MessageRow.text,
            MessageRow.indexed,
            MessageRow.search_text,
            SessionRow.incognito,
            SessionRow.session_key,
        )
        .join(TranscriptRow, TranscriptRow.id == MessageRow.transcript_pk)
        .join(SessionRow, SessionRow.id == TranscriptRow.session_pk)
        .order_by(MessageRow.id)
        .limit(_BATCH)
    )
    last = done = 0
    while rows := session.execute(statement.where(MessageRow.id > last)).all():
        yield from paced(session.connection().dialect, rows)
        last, done = rows[-1].id, done + len(rows)
        if progress is not None:
            progress(done, total)


def mend(session: orm.Session) -> None:
    """Makes active paths right and the index hold what is marked, and leaves every transcript pending.

    What is marked wrongly is then put right by reindexing, in short transactions beside the writers.
    """
    connection = session.connection()
    if any(_damaged(connection)):
        for table in _TABLES:
            connection.exec_driver_sql(f"REINDEX {PREFIX}{table}")
    schema.restore(connection)
    connection.execute(_SETTLE_BRANCHES)
    connection.execute(_SETTLE_PATHS)
    times.date_all(Statements(connection))
    if any(schema.lacking(connection)) or integrity(connection) is not None or any(_unfindable(connection)):
        fts.recreate(connection)
    leave_all_pending(connection)
    session.expire_all()


# A branch whose head was deleted went with it: the line goes on from the deepest message that is left of it.
_SETTLE_BRANCHES = sa.text(
    """INSERT INTO backscroll_branches (transcript_pk, branch_id, head_pk, reset_pk, active, created_at)
    SELECT t.id, 'mended-' || lower(hex(randomblob(8))), m.id,
        (SELECT r.id FROM backscroll_resets AS r WHERE r.transcript_pk = t.id AND r.active = 1
         ORDER BY r.depth DESC, r.id DESC LIMIT 1), 1, t.started_at
    FROM backscroll_transcripts AS t
    LEFT JOIN backscroll_messages AS m ON m.id = (
        SELECT a.id FROM backscroll_messages AS a WHERE a.transcript_pk = t.id AND a.active = 1
        ORDER BY a.depth DESC LIMIT 1)
    WHERE NOT EXISTS (SELECT 1 FROM backscroll_branches AS b WHERE b.transcript_pk = t.id AND b.active = 1)"""
)
_SETTLE_PATHS = sa.text(
    """WITH RECURSIVE line(id) AS (
        SELECT head_pk FROM backscroll_branches WHERE active = 1 AND head_pk IS NOT NULL
        UNION SELECT m.parent_pk FROM backscroll_messages AS m JOIN line ON m.id = line.id
        WHERE m.parent_pk IS NOT NULL)
    UPDATE backscroll_messages SET active = (id IN (SELECT id FROM line)), edits = edits + 1
    WHERE active <> (id IN (SELECT id FROM line))"""
)
