"""Which transcripts wait to be reindexed, and doing it, a few messages at a time."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import orm

from backscroll.infrastructure import fts
from backscroll.infrastructure.hooks import OWN_STATEMENT, body_of, scope_of, wanted
from backscroll.infrastructure.rows import MESSAGES, IndexStateRow, MessageRow, PendingRow, TranscriptRow


def mark_pending(session: orm.Session, transcript_pk: int) -> None:
    """Leaves a transcript to be reindexed, from its first message."""
    row = session.get(PendingRow, transcript_pk)
    if row is None:
        session.add(PendingRow(transcript_pk=transcript_pk, done_to=""))
    else:
        row.done_to = ""
    session.flush()


def next_pending(session: orm.Session, skip: Sequence[str]) -> str | None:
    """The newest pending transcript's session id; one from before the index gets a row of its own first."""
    statement = (
        sa.select(TranscriptRow)
        .join(PendingRow, PendingRow.transcript_pk == TranscriptRow.id)
        .where(TranscriptRow.session_id.not_in(skip))
        .order_by(TranscriptRow.id.desc())
        .limit(1)
    )
    if (row := session.scalar(statement)) is not None:
        return row.session_id
    state = session.scalars(sa.select(IndexStateRow)).one()
    legacy = session.scalar(
        sa.select(TranscriptRow).where(TranscriptRow.id <= state.legacy_pk).order_by(TranscriptRow.id.desc()).limit(1)
    )
    state.legacy_pk = legacy.id - 1 if legacy else 0
    if legacy is None:
        session.flush()
        return None
    mark_pending(session, legacy.id)
    return legacy.session_id


def reindex_some(session: orm.Session, transcript: TranscriptRow, limit: int) -> tuple[int, int, bool]:
    """Brings the next `limit` messages of a pending transcript up to date: rows added, rows removed, all done."""
    pending = session.get(PendingRow, transcript.id)
    if pending is None:
        return 0, 0, True
    rows = session.scalars(
        sa.select(MessageRow)
        .where(MessageRow.transcript_pk == transcript.id, MessageRow.message_id > pending.done_to)
        .order_by(MessageRow.message_id)
        .limit(limit)
    ).all()
    scope = scope_of(transcript)
    removed: list[fts.IndexRow] = []
    added: list[fts.IndexRow] = []
    changes: list[dict[str, object]] = []
    for row in rows:
        indexed, substitute = wanted(row.role, row.active and not transcript.session.incognito, row.text)
        if indexed == row.indexed and (not indexed or substitute == row.search_text):
            continue
        if row.indexed:
            removed.append((row.id, body_of(row), scope))
        if indexed:
            added.append((row.id, row.text if substitute is None else substitute, scope))
        changes.append({"pk": row.id, "now": indexed, "substitute": substitute})
    connection = session.connection()
    fts.delete(connection, removed)
    if changes:
        connection.execute(
            sa.update(MESSAGES)
            .where(MESSAGES.c.id == sa.bindparam("pk"))
            .values(indexed=sa.bindparam("now"), search_text=sa.bindparam("substitute")),
            changes,
            execution_options=OWN_STATEMENT,
        )
    fts.insert(connection, added)
    done = len(rows) < limit
    if done:
        session.delete(pending)
    else:
        pending.done_to = rows[-1].message_id
    session.flush()
    session.expire_all()
    return len(added), len(removed), done
