"""Where transcripts are being written: what an append must know, and nothing more."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from backscroll.domain.errors import StoreUnavailable
from backscroll.domain.model import Branch, Line
from backscroll.infrastructure import mapping
from backscroll.infrastructure.fts import scope_tokens
from backscroll.infrastructure.pages import RESET_WITH_KEY, PathReads, Place
from backscroll.infrastructure.rows import LAST_KEY
from backscroll.infrastructure.transaction import Transaction
from backscroll.infrastructure.types import from_micros

BRANCH_ON_PATH: sa.ColumnElement[bool] = sa.literal_column("backscroll_branches.active = 1")
CURRENT: sa.ColumnElement[bool] = sa.literal_column("backscroll_transcripts.is_current = 1")


class Tip(NamedTuple):
    """The message in which a line ends: what the next one has to know of it."""

    pk: int | None
    message_id: str | None
    depth: int
    shown: int


class Head(NamedTuple):
    """A branch's key, its last reset, and where it ends."""

    branch_pk: int
    reset_pk: int | None
    tip: Tip


_HEAD = "b.id, b.reset_pk, b.head_pk, m.message_id, m.depth, m.shown"
_WITH_HEAD = "LEFT JOIN backscroll_messages AS m ON m.id = b.head_pk"
_BRANCH = f"""SELECT {_HEAD} FROM backscroll_branches AS b {_WITH_HEAD}
    WHERE b.transcript_pk = ? AND b.branch_id = ?"""
_GROWING = f"t.session_id, t.id, s.incognito, s.id, s.agent_pk, ({LAST_KEY}), b.branch_id, b.created_at, {_HEAD}"
_LINES = f"""backscroll_sessions AS s JOIN backscroll_transcripts AS t ON t.session_pk = s.id
    JOIN backscroll_branches AS b ON b.transcript_pk = t.id AND b.active = 1 {_WITH_HEAD}"""
_OF_TRANSCRIPT = "WHERE t.session_id = ?"
_OF_SESSION = "WHERE s.session_key = ? AND t.is_current = 1"
_SELECT_BRANCH = f"SELECT {_GROWING} FROM {_LINES}"
_SELECT_LINE = f"""SELECT {mapping.SESSION}, t.started_at, t.is_current, t.reason, {_GROWING}
    FROM {_LINES} JOIN backscroll_agents AS a ON a.id = s.agent_pk"""
_SESSION_PART = mapping.SESSION.count(",") + 1


class HeadReads(PathReads):
    """The part of the messages repository that knows where the next message goes."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._heads: dict[tuple[str, str], Head] = {}
        self._last_key: int | None = None

    def line(self, session_id: str) -> Line | None:
        """Where the transcript is being written."""
        return self._line(f"{_SELECT_LINE} {_OF_TRANSCRIPT}", session_id)

    def current_line(self, session_key: str) -> Line | None:
        """Where the session's current transcript is being written."""
        return self._line(f"{_SELECT_LINE} {_OF_SESSION}", session_key)

    def active_branch(self, session_id: str) -> Branch | None:
        """The transcript's active branch: all of its line that whoever writes behind it has to know."""
        row = self._transaction.statements.first(f"{_SELECT_BRANCH} {_OF_TRANSCRIPT}", (session_id,))
        return self._growing(row) if row else None

    def current_branch(self, session_key: str) -> Branch | None:
        """The active branch of the session's current transcript."""
        row = self._transaction.statements.first(f"{_SELECT_BRANCH} {_OF_SESSION}", (session_key,))
        return self._growing(row) if row else None

    def _line(self, statement: str, name: str) -> Line | None:
        row = self._transaction.statements.first(statement, (name,))
        if row is None:
            return None
        session = mapping.session(row[:_SESSION_PART])
        started_at, current, reason, *growing = row[_SESSION_PART:]
        branch = self._growing(growing)
        reset_pk = self._heads[branch.session_id, branch.branch_id].reset_pk
        return Line(
            session=session,
            transcript=mapping.transcript((branch.session_id, session.session_key, started_at, current, reason)),
            branch=branch,
            reset=None if reset_pk is None else self._reset(RESET_WITH_KEY, (reset_pk,), branch.session_id),
        )

    def _growing(self, row: Sequence[Any]) -> Branch:
        """The active branch of a row, and a note of where it ends."""
        session_id, transcript_pk, incognito, session_pk, agent_pk, last_key, branch_id, created_at, *end = row
        self._last_key = last_key or 0
        self._places[session_id] = Place(transcript_pk, None if incognito else scope_tokens(session_pk, agent_pk))
        self._heads[session_id, branch_id] = head = _head(end)
        self._shown[session_id][head.tip.depth] = head.tip.shown
        return Branch(
            branch_id=branch_id,
            session_id=session_id,
            head=head.tip.message_id,
            depth=head.tip.depth,
            active=True,
            created_at=from_micros(created_at),
        )

    def _head(self, branch: Branch) -> Head:
        """A branch's key and end, kept for as long as this unit of work lasts: nobody else writes meanwhile."""
        key = branch.session_id, branch.branch_id
        if key not in self._heads:
            row = self._transaction.statements.first(_BRANCH, (self._place(branch.session_id).pk, branch.branch_id))
            if row is None:
                raise StoreUnavailable(f"branch {branch.branch_id!r} is not stored any more")
            self._heads[key] = _head(row)
        return self._heads[key]


def _head(row: Sequence[Any]) -> Head:
    branch_pk, reset_pk, head_pk, message_id, depth, shown = row
    return Head(branch_pk, reset_pk, Tip(head_pk, message_id, depth or 0, shown or 0))
