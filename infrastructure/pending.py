"""Which transcripts wait to be reindexed, who has claimed them, and doing it a few messages at a time."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import orm

from backscroll.domain.ports import Reindexed
from backscroll.infrastructure import fts
from backscroll.infrastructure.hooks import scope_of, wanted
from backscroll.infrastructure.rows import MESSAGES, IndexStateRow, PendingRow, TranscriptRow

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


def claim(session: orm.Session, worker: str, now: datetime, until: datetime, skip: Sequence[str]) -> str | None:
    """Claims the newest pending transcript that nobody holds; one from before the index gets a row of its own first."""
    found = session.execute(
        sa.select(PendingRow, TranscriptRow.session_id)
        .join(TranscriptRow, TranscriptRow.id == PendingRow.transcript_pk)
        .where(
            sa.or_(PendingRow.claimed_until.is_(None), PendingRow.claimed_until <= now),
            TranscriptRow.session_id.not_in(skip),
        )
        .order_by(PendingRow.transcript_pk.desc())
        .limit(1)
    ).first()
    if found is None:
        legacy = _next_legacy(session)
        if legacy is None:
            return None
        mark_pending(session, legacy.id)
        return claim(session, worker, now, until, skip)
    pending, session_id = found
    pending.claimed_by, pending.claimed_until, pending.failure = worker, until, None
    session.flush()
    return str(session_id)


def _next_legacy(session: orm.Session) -> TranscriptRow | None:
    """Takes the newest transcript from before the index out of their number."""
    state = session.scalar(sa.select(IndexStateRow))
    if state is None or not state.legacy_pk:
        return None
    row = session.scalar(
        sa.select(TranscriptRow).where(TranscriptRow.id <= state.legacy_pk).order_by(TranscriptRow.id.desc()).limit(1)
    )
    state.legacy_pk = row.id - 1 if row else 0
    session.flush()
    return row


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
    for row in rows:
        indexed, substitute = wanted(row.role, row.active and indexable, row.text)
        if (indexed, substitute) == (row.indexed, row.search_text):
            continue
        if row.indexed:
            removed.append((row.id, row.text if row.search_text is None else row.search_text, scope))
        if indexed:
            added.append((row.id, row.text if substitute is None else substitute, scope))
        changes.append((indexed, substitute, row.id))
    fts.delete(connection, removed)
    _file_as(connection, changes)
    fts.insert(connection, added)
    if done:
        session.delete(pending)
    else:
        pending.done_to, pending.claimed_until = rows[-1].message_id, until
    session.flush()
    return Reindexed(seen=len(rows), added=len(added), removed=len(removed), done=done)


def _file_as(connection: sa.Connection, changes: list[tuple[bool, str | None, int]]) -> None:
    """Sets whether messages are indexed and by which text, each told as `(indexed, search_text, id)`."""
    if changes:
        connection.exec_driver_sql(_FILE_AS, changes)


_FILE_AS = f"UPDATE {MESSAGES.name} SET indexed = ?, search_text = ?, edits = edits + 1 WHERE id = ?"


def rest(session: orm.Session, session_id: str, worker: str, until: datetime, failure: str) -> None:
    """Leaves a transcript that failed alone until then."""
    transcript = sa.select(TranscriptRow.id).where(TranscriptRow.session_id == session_id).scalar_subquery()
    mine = sa.select(PendingRow).where(PendingRow.transcript_pk == transcript, PendingRow.claimed_by == worker)
    if (row := session.scalar(mine)) is not None:
        row.claimed_until, row.failure = until, failure
        session.flush()
