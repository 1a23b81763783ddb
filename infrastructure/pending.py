"""Which transcripts wait to be reindexed, who has claimed them, and doing it a few messages at a time."""

import json
from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import orm

from backscroll.domain.ports import Reindexed
from backscroll.infrastructure import fts
from backscroll.infrastructure.bodies import body
from backscroll.infrastructure.bridge import paced
from backscroll.infrastructure.hooks import scope_of, wanted
from backscroll.infrastructure.rows import MESSAGES, PendingRow, TranscriptRow
from backscroll.infrastructure.statements import Statements
from backscroll.infrastructure.types import micros

_COLUMNS = [MESSAGES.c[name] for name in ("id", "message_id", "role", "active", "text", "indexed", "search_text")]


def mark_pending(session: orm.Session, transcript_pk: int) -> None:
    """Leaves a transcript to be reindexed, from its first message; whoever has claimed it starts again."""
    row = session.get(PendingRow, transcript_pk)
    if row is None:
        session.add(PendingRow(transcript_pk=transcript_pk, done_to=""))
    else:
        row.done_to = ""
        row.failure = None
    session.flush()


def leave_all_pending(connection: sa.Connection) -> None:
    """Leaves every transcript to be reindexed, at once whatever their number."""
    connection.execute(sa.delete(PendingRow))
    connection.execute(_ALL_LEGACY)


# The row may be lost: then the rewrites are counted from a number that nobody has seen before.
_ALL_LEGACY = sa.text(
    """INSERT INTO backscroll_index_state (id, legacy_pk, rewrites)
    SELECT 1, coalesce((SELECT max(id) FROM backscroll_transcripts), 0), abs(random() / 2)
    WHERE true ON CONFLICT (id) DO UPDATE SET legacy_pk = excluded.legacy_pk, rewrites = rewrites + 1"""
)


def claim(session: orm.Session, worker: str, now: datetime, until: datetime, skip: Sequence[str]) -> str | None:
    """Claims the newest pending transcript that nobody holds; one from before the index gets a row of its own first."""
    connection = session.connection()
    terms = {"worker": worker, "now": micros(now), "until": micros(until), "skip": json.dumps(list(skip))}
    pk = connection.execute(_CLAIM, terms).scalar()
    if pk is None:
        pk = connection.execute(_CLAIM_LEGACY, terms).scalar()
        connection.execute(_LEGACY_BELOW, {"pk": pk or 1})
    return None if pk is None else connection.scalar(sa.select(TranscriptRow.session_id).where(TranscriptRow.id == pk))


_CLAIM = sa.text(
    """UPDATE backscroll_pending SET claimed_by = :worker, claimed_until = :until, failure = NULL
    WHERE transcript_pk = (
        SELECT p.transcript_pk FROM backscroll_pending AS p JOIN backscroll_transcripts AS t ON t.id = p.transcript_pk
        WHERE (p.claimed_until IS NULL OR p.claimed_until <= :now)
            AND t.session_id NOT IN (SELECT value FROM json_each(:skip))
        ORDER BY p.transcript_pk DESC LIMIT 1)
    RETURNING transcript_pk"""
)
_CLAIM_LEGACY = sa.text(
    """INSERT INTO backscroll_pending (transcript_pk, claimed_by, claimed_until)
    SELECT t.id, :worker, :until FROM backscroll_transcripts AS t
    WHERE t.id <= (SELECT legacy_pk FROM backscroll_index_state)
        AND NOT EXISTS (SELECT 1 FROM backscroll_pending AS p WHERE p.transcript_pk = t.id)
    ORDER BY t.id DESC LIMIT 1
    RETURNING transcript_pk"""
)
_LEGACY_BELOW = sa.text("UPDATE backscroll_index_state SET legacy_pk = :pk - 1 WHERE legacy_pk >= :pk")


def reindex_some(session: orm.Session, session_id: str, worker: str, until: datetime, limit: int) -> Reindexed:
    """Brings the next messages of a claimed transcript up to date; a claim lost to somebody else ends the work."""
    found = session.execute(
        sa.select(PendingRow, TranscriptRow)
        .join(TranscriptRow, TranscriptRow.id == PendingRow.transcript_pk)
        .where(TranscriptRow.session_id == session_id, PendingRow.claimed_by == worker)
    ).first()
    if found is None:
        return Reindexed()
    pending, transcript = found
    connection = session.connection()
    rows = connection.execute(
        sa.select(*_COLUMNS)
        .where(MESSAGES.c.transcript_pk == transcript.id, MESSAGES.c.message_id > pending.done_to)
        .order_by(MESSAGES.c.message_id)
        .limit(limit + 1)
    ).all()
    done, rows = len(rows) <= limit, rows[:limit]
    scope, indexable = scope_of(transcript), not transcript.session.incognito
    removed: list[fts.IndexRow] = []
    added: list[fts.IndexRow] = []
    changes: list[tuple[bool, str | None, int]] = []
    for row in paced(connection.dialect, rows):
        indexed, substitute = wanted(row.role, row.active and indexable, row.text)
        if (indexed, substitute) == (row.indexed, row.search_text):
            continue
        if row.indexed:
            removed.append((row.id, body(row.text, row.search_text), scope))
        if indexed:
            added.append((row.id, body(row.text, substitute), scope))
        changes.append((indexed, substitute, row.id))
    statements = Statements(connection)
    fts.delete(statements, removed)
    _file_as(statements, changes)
    fts.insert(statements, added)
    if done:
        session.delete(pending)
    else:
        pending.done_to, pending.claimed_until = rows[-1].message_id, until
    session.flush()
    return Reindexed(seen=len(rows), added=len(added), removed=len(removed), done=done)


def _file_as(statements: Statements, changes: list[tuple[bool, str | None, int]]) -> None:
    """Sets whether messages are indexed and by which text, each told as `(indexed, search_text, id)`."""
    if changes:
        statements.run_many(_FILE_AS, changes)


_FILE_AS = f"UPDATE {MESSAGES.name} SET indexed = ?, search_text = ?, edits = edits + 1 WHERE id = ?"


def rest(session: orm.Session, session_id: str, worker: str, until: datetime, failure: str) -> None:
    """Leaves a transcript that failed alone until then."""
    transcript = sa.select(TranscriptRow.id).where(TranscriptRow.session_id == session_id).scalar_subquery()
    mine = sa.select(PendingRow).where(PendingRow.transcript_pk == transcript, PendingRow.claimed_by == worker)
    if (row := session.scalar(mine)) is not None:
        row.claimed_until, row.failure = until, failure
        session.flush()
