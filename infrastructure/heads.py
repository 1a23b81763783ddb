"""Where transcripts are being written: what an append must know, and nothing more."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from backscroll.domain.model import Branch, Line, Transcript
from backscroll.domain.visibility import Scope
from backscroll.infrastructure import mapping
from backscroll.infrastructure.engine import told
from backscroll.infrastructure.fts import scope_tokens
from backscroll.infrastructure.hooks import IndexedSession
from backscroll.infrastructure.pages import RESET_WITH_KEY, PathReads, Place
from backscroll.infrastructure.rows import AGENTS, BRANCHES, MESSAGES, SESSIONS, TRANSCRIPTS
from backscroll.infrastructure.scopes import scope_sql
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


_HEAD = (
    BRANCHES.c.id.label("branch_pk"),
    BRANCHES.c.reset_pk,
    BRANCHES.c.head_pk,
    MESSAGES.c.message_id.label("head"),
    MESSAGES.c.depth,
    MESSAGES.c.shown,
)
# Made once, and of columns instead of rows: an append takes longer over those than over its writing.
_BRANCH = (
    sa.select(*_HEAD)
    .select_from(BRANCHES.outerjoin(MESSAGES, MESSAGES.c.id == BRANCHES.c.head_pk))
    .where(BRANCHES.c.transcript_pk == sa.bindparam("transcript"), BRANCHES.c.branch_id == sa.bindparam("branch"))
)
LAST_KEY = f"SELECT seq FROM sqlite_sequence WHERE name = '{MESSAGES.name}'"
_LINE = (
    sa.select(
        *(column for column in SESSIONS.c if column.name != "metadata"),
        SESSIONS.c.metadata.label("meta"),
        AGENTS.c.agent_id,
        TRANSCRIPTS.c.id.label("transcript_pk"),
        TRANSCRIPTS.c.session_id,
        TRANSCRIPTS.c.started_at,
        TRANSCRIPTS.c.is_current,
        TRANSCRIPTS.c.reason,
        BRANCHES.c.branch_id,
        BRANCHES.c.created_at.label("branched_at"),
        sa.literal_column(f"({LAST_KEY})").label("last_key"),
        *_HEAD,
    )
    .select_from(SESSIONS)
    .join(AGENTS, AGENTS.c.id == SESSIONS.c.agent_pk)
    .join(TRANSCRIPTS, TRANSCRIPTS.c.session_pk == SESSIONS.c.id)
    .join(BRANCHES, sa.and_(BRANCHES.c.transcript_pk == TRANSCRIPTS.c.id, BRANCH_ON_PATH))
    .outerjoin(MESSAGES, MESSAGES.c.id == BRANCHES.c.head_pk)
)
# As text, and read as plain tuples: an append takes longer over a typed statement than over its writing.
_GROWING = f"""SELECT t.session_id, t.id, s.incognito, s.id, s.agent_pk, ({LAST_KEY}),
        b.branch_id, b.created_at, b.id, b.reset_pk, b.head_pk, m.message_id, m.depth, m.shown
    FROM backscroll_sessions AS s
    JOIN backscroll_transcripts AS t ON t.session_pk = s.id
    JOIN backscroll_branches AS b ON b.transcript_pk = t.id AND b.active = 1
    LEFT JOIN backscroll_messages AS m ON m.id = b.head_pk"""
_ACTIVE_BRANCH = f"{_GROWING} WHERE t.session_id = ?"
_CURRENT_BRANCH = f"{_GROWING} WHERE s.session_key = ? AND t.is_current = 1"
_LINE_OF_TRANSCRIPT = _LINE.where(TRANSCRIPTS.c.session_id == sa.bindparam("name"))
_CURRENT_LINE = _LINE.where(SESSIONS.c.session_key == sa.bindparam("name"), CURRENT)


@lru_cache(64)
def _visible_line(condition: str, *, current: bool) -> sa.Select[*tuple[Any, ...]]:
    """The line of a session whose key is `wanted`, if the condition, on sessions under the alias `s`, holds for it."""
    allowed = f"EXISTS (SELECT 1 FROM backscroll_sessions AS s WHERE s.id = backscroll_sessions.id AND {condition})"
    statement = _CURRENT_LINE if current else _LINE_OF_TRANSCRIPT
    return statement.where(SESSIONS.c.session_key == sa.bindparam("wanted"), sa.text(allowed))


def _head(row: sa.Row[*tuple[Any, ...]]) -> Head:
    return Head(row.branch_pk, row.reset_pk, Tip(row.head_pk, row.head, row.depth or 0, row.shown or 0))


class HeadReads(PathReads):
    """The part of the messages repository that knows where the next message goes."""

    def __init__(self, session: IndexedSession) -> None:
        super().__init__(session)
        self._heads: dict[tuple[str, str], Head] = {}
        self._last_key: int | None = None

    def line(self, session_id: str) -> Line | None:
        """Where the transcript is being written."""
        return self._line(_LINE_OF_TRANSCRIPT, session_id)

    def active_branch(self, session_id: str) -> Branch | None:
        """The transcript's active branch: all of its line that whoever writes behind it has to know."""
        return self._growing(_ACTIVE_BRANCH, session_id)

    def current_branch(self, session_key: str) -> Branch | None:
        """The active branch of the session's current transcript."""
        return self._growing(_CURRENT_BRANCH, session_key)

    def _growing(self, statement: str, name: str) -> Branch | None:
        row = told(self._session.connection(), statement, (name,))
        if row is None:
            return None
        session_id, transcript_pk, incognito, session_pk, agent_pk, last_key, branch_id, created_at, *head = row
        branch_pk, reset_pk, head_pk, message_id, depth, shown = head
        tip = Tip(head_pk, message_id, depth or 0, shown or 0)
        self._last_key = last_key or 0
        self._places[session_id] = Place(transcript_pk, None if incognito else scope_tokens(session_pk, agent_pk))
        self._heads[session_id, branch_id] = Head(branch_pk, reset_pk, tip)
        return Branch(
            branch_id=branch_id,
            session_id=session_id,
            head=message_id,
            depth=tip.depth,
            active=True,
            created_at=from_micros(created_at),
        )

    def current_line(self, session_key: str) -> Line | None:
        """Where the session's current transcript is being written."""
        return self._line(_CURRENT_LINE, session_key)

    def visible_line(self, session_key: str, session_id: str | None, scope: Scope) -> Line | None:
        """Where that transcript of the session (None: the current one) is being written, if it is in `scope`."""
        allowed = scope_sql(self._session.connection(), scope)
        statement = _visible_line(allowed.condition, current=session_id is None)
        return self._line(statement, session_id or session_key, {**allowed.params, "wanted": session_key})

    def _line(
        self, statement: sa.Select[*tuple[Any, ...]], name: str, more: Mapping[str, object] | None = None
    ) -> Line | None:
        row = self._session.connection().execute(statement, {"name": name, **(more or {})}).first()
        if row is None:
            return None
        session_id = row.session_id
        scope = None if row.incognito else scope_tokens(row.id, row.agent_pk)
        self._last_key = row.last_key or 0
        self._places[session_id] = Place(row.transcript_pk, scope)
        self._heads[session_id, row.branch_id] = head = _head(row)
        self._shown[session_id, head.tip.depth] = head.tip.shown
        latest = None if head.reset_pk is None else self._reset(RESET_WITH_KEY, (head.reset_pk,), session_id)
        return Line(
            session=mapping.session(row, row.agent_id, session_id),
            transcript=Transcript(
                session_id=session_id,
                session_key=row.session_key,
                started_at=row.started_at,
                current=row.is_current,
                reason=row.reason,
            ),
            branch=Branch(
                branch_id=row.branch_id,
                session_id=session_id,
                head=head.tip.message_id,
                depth=head.tip.depth,
                active=True,
                created_at=row.branched_at,
            ),
            reset=latest,
        )

    def _head(self, branch: Branch) -> Head:
        """A branch's key and end, kept for as long as this unit of work lasts: nobody else writes meanwhile."""
        key = branch.session_id, branch.branch_id
        if key not in self._heads:
            given = {"transcript": self._place(branch.session_id).pk, "branch": branch.branch_id}
            self._heads[key] = _head(self._session.connection().execute(_BRANCH, given).one())
        return self._heads[key]
