"""The sessions repository: sessions and their transcripts."""

from datetime import datetime

import sqlalchemy as sa

from backscroll.domain.model import Session, Transcript
from backscroll.domain.results import SessionSummary
from backscroll.domain.visibility import Scope
from backscroll.infrastructure import mapping
from backscroll.infrastructure.heads import CURRENT
from backscroll.infrastructure.rows import SessionRow, TranscriptRow
from backscroll.infrastructure.scopes import scope_sql
from backscroll.infrastructure.statements import Statements
from backscroll.infrastructure.transaction import Transaction
from backscroll.infrastructure.types import micros

# As text: importing many short sessions, the ORM would take longer over these than over all their messages.
_SESSION = f"""SELECT {mapping.SESSION} FROM backscroll_sessions AS s
    JOIN backscroll_agents AS a ON a.id = s.agent_pk
    JOIN backscroll_transcripts AS t ON t.session_pk = s.id AND t.is_current = 1 WHERE s.session_key = :wanted"""
_AGENT_PK = "SELECT id FROM backscroll_agents WHERE agent_id = ?"
_SESSION_PK = "SELECT id FROM backscroll_sessions WHERE session_key = ?"
_ADD_AGENT = "INSERT INTO backscroll_agents (agent_id) VALUES (?)"
_ADD_SESSION = f"""INSERT INTO backscroll_sessions ({", ".join(mapping.SESSION_COLUMNS)})
    VALUES ({", ".join("?" * len(mapping.SESSION_COLUMNS))})"""
_ADD_TRANSCRIPT = """INSERT INTO backscroll_transcripts (session_pk, session_id, started_at, is_current, reason)
    VALUES (?, ?, ?, ?, ?)"""
_ADD_BRANCH = """INSERT INTO backscroll_branches (transcript_pk, branch_id, active, created_at) VALUES (?, ?, 1, ?)"""
_LEAVE_TRANSCRIPT = "UPDATE backscroll_transcripts SET is_current = 0 WHERE is_current = 1 AND session_pk = ?"
_TRANSCRIPT = """SELECT t.session_id, s.session_key, t.started_at, t.is_current, t.reason
    FROM backscroll_transcripts AS t JOIN backscroll_sessions AS s ON s.id = t.session_pk WHERE t.session_id = ?"""
_TOUCH = "UPDATE backscroll_sessions SET updated_at = max(updated_at, ?) WHERE session_key = ?"


class SqlSessions:
    """Sessions and transcripts in SQL."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def get(self, session_key: str) -> Session | None:
        """The session of that exact key."""
        row = self._transaction.statements.first(_SESSION, {"wanted": session_key})
        return mapping.session(row) if row else None

    def visible(self, session_key: str, scope: Scope) -> Session | None:
        """The session of that exact key, if it is in `scope`."""
        allowed = scope_sql(self._transaction.statements, scope)
        statement, params = f"{_SESSION} AND {allowed.condition}", {**allowed.params, "wanted": session_key}
        row = self._transaction.statements.first(statement, params)
        return mapping.session(row) if row else None

    def add(self, session: Session, branch_id: str) -> None:
        """Stores a new session with its first, empty transcript, whose only branch gets `branch_id`."""
        statements = self._transaction.statements
        agent_pk = statements.scalar(_AGENT_PK, (session.agent_id,))
        if agent_pk is None:
            agent_pk = statements.added(_ADD_AGENT, (session.agent_id,))
        session_pk = statements.added(_ADD_SESSION, mapping.new_session(session, agent_pk))
        first = Transcript(
            session_id=session.session_id, session_key=session.session_key, started_at=session.created_at
        )
        _add_transcript(statements, session_pk, first, branch_id)

    def update(self, session: Session) -> None:
        """Stores the changed fields of a session."""
        mapping.write_session(session, self._row(session.session_key))
        self._transaction.session.flush()

    def touch(self, session_key: str, at: datetime) -> None:
        """Notes that the session was written to; the time noted never goes back."""
        self._transaction.statements.run(_TOUCH, (micros(at), session_key))

    def remove(self, session_key: str) -> bool:
        """Deletes a session with everything in it and in the index; False when there is none."""
        row = self._transaction.session.scalar(sa.select(SessionRow).where(SessionRow.session_key == session_key))
        if row is None:
            return False
        self._transaction.session.delete(row)
        self._transaction.session.flush()
        return True

    def untouched(self, since: datetime, keep: int, limit: int) -> list[str]:
        """Keys of up to `limit` sessions not written to since then, oldest first; each agent keeps `keep`."""
        newest_first = (SessionRow.updated_at.desc(), SessionRow.id.desc())
        place = sa.func.row_number().over(partition_by=SessionRow.agent_pk, order_by=newest_first)
        ranked = sa.select(
            SessionRow.session_key, SessionRow.updated_at, SessionRow.id, place.label("place")
        ).subquery()
        return list(
            self._transaction.session.scalars(
                sa.select(ranked.c.session_key)
                .where(ranked.c.updated_at < since, ranked.c.place > keep)
                .order_by(ranked.c.updated_at, ranked.c.id)
                .limit(limit)
            )
        )

    def listed(self, scope: Scope, limit: int, offset: int) -> list[SessionSummary]:
        """The sessions in `scope`, the last written to first."""
        allowed = scope_sql(self._transaction.statements, scope)
        rows = self._transaction.session.execute(
            sa.text(
                f"SELECT s.id FROM backscroll_sessions AS s WHERE {allowed.condition}"
                " ORDER BY s.updated_at DESC, s.id DESC LIMIT :limit OFFSET :offset"
            ),
            {**allowed.params, "limit": limit, "offset": offset},
        )
        order = {pk: place for place, (pk,) in enumerate(rows)}
        found = self._transaction.session.execute(
            sa.select(SessionRow, TranscriptRow.session_id)
            .join(TranscriptRow, sa.and_(TranscriptRow.session_pk == SessionRow.id, CURRENT))
            .where(SessionRow.id.in_(order))
        ).all()
        return [mapping.summary(row, session_id) for row, session_id in sorted(found, key=lambda one: order[one[0].id])]

    def transcript(self, session_id: str) -> Transcript | None:
        """The transcript of that id, of whatever session."""
        row = self._transaction.statements.first(_TRANSCRIPT, (session_id,))
        return mapping.transcript(row) if row else None

    def add_transcript(self, transcript: Transcript, branch_id: str) -> None:
        """Stores a transcript with one empty branch; a current one takes the place of the one before."""
        statements = self._transaction.statements
        session_pk = statements.scalar(_SESSION_PK, (transcript.session_key,))
        if transcript.current:
            statements.run(_LEAVE_TRANSCRIPT, (session_pk,))
        _add_transcript(statements, session_pk, transcript, branch_id)

    def _row(self, session_key: str) -> SessionRow:
        return self._transaction.session.scalars(
            sa.select(SessionRow).where(SessionRow.session_key == session_key)
        ).one()


def _add_transcript(statements: Statements, session_pk: int, transcript: Transcript, branch_id: str) -> None:
    row = mapping.new_transcript(transcript, session_pk)
    transcript_pk = statements.added(_ADD_TRANSCRIPT, row)
    statements.run(_ADD_BRANCH, (transcript_pk, branch_id, micros(transcript.started_at)))
