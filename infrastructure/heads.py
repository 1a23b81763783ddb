"""Where transcripts are being written: what an append must know, and nothing more."""

from typing import Any, NamedTuple

import sqlalchemy as sa

from backscroll.domain.model import Branch, Line, Transcript
from backscroll.infrastructure import mapping
from backscroll.infrastructure.fts import scope_tokens
from backscroll.infrastructure.pages import RESET_WITH_KEY, PathReads, Place
from backscroll.infrastructure.rows import AGENTS, BRANCHES, MESSAGES, SESSIONS, TRANSCRIPTS
from backscroll.infrastructure.transaction import Transaction

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
_LINE_OF_TRANSCRIPT = _LINE.where(TRANSCRIPTS.c.session_id == sa.bindparam("name"))
_CURRENT_LINE = _LINE.where(SESSIONS.c.session_key == sa.bindparam("name"), CURRENT)


def _head(row: sa.Row[*tuple[Any, ...]]) -> Head:
    return Head(row.branch_pk, row.reset_pk, Tip(row.head_pk, row.head, row.depth or 0, row.shown or 0))


class HeadReads(PathReads):
    """The part of the messages repository that knows where the next message goes."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(transaction)
        self._heads: dict[tuple[str, str], Head] = {}
        self._last_key: int | None = None

    def line(self, session_id: str) -> Line | None:
        """Where the transcript is being written."""
        return self._line(_LINE_OF_TRANSCRIPT, session_id)

    def current_line(self, session_key: str) -> Line | None:
        """Where the session's current transcript is being written."""
        return self._line(_CURRENT_LINE, session_key)

    def _line(self, statement: sa.Select[*tuple[Any, ...]], name: str) -> Line | None:
        row = self._transaction.connection.execute(statement, {"name": name}).first()
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
            self._heads[key] = _head(self._transaction.connection.execute(_BRANCH, given).one())
        return self._heads[key]
