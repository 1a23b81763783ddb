"""Reading along the active path: every read is a range scan over depths."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import orm

from backscroll.domain.errors import SessionNotFound
from backscroll.domain.model import SPOKEN, Message, Reset, Role
from backscroll.domain.paths import Stretch
from backscroll.infrastructure import mapping
from backscroll.infrastructure.hooks import IndexedSession
from backscroll.infrastructure.rows import MessageRow, ResetRow, TranscriptRow
from backscroll.infrastructure.types import Json

Parent = orm.aliased(MessageRow, name="parent")
# Literally the condition of the partial indexes: a bound parameter would hide it from SQLite's planner.
ON_PATH: sa.ColumnElement[bool] = sa.literal_column("backscroll_messages.active = 1")
RESET_ON_PATH: sa.ColumnElement[bool] = sa.literal_column("backscroll_resets.active = 1")


class PathReads:
    """The reading half of the messages repository."""

    def __init__(self, session: IndexedSession) -> None:
        self._session = session
        self._transcripts: dict[str, TranscriptRow] = {}

    def find(self, session_id: str, message_id: str) -> Message | None:
        """One message, on the active path or off it."""
        return self.known(session_id, [message_id]).get(message_id)

    def known(self, session_id: str, message_ids: Sequence[str]) -> dict[str, Message]:
        """Those of the messages that are stored."""
        # One JSON parameter: an IN list would meet SQLite's limit on the number of variables.
        names = sa.func.json_each(sa.bindparam(None, list(message_ids), type_=Json)).table_valued("value")
        statement = self._select(session_id).where(MessageRow.message_id.in_(sa.select(names.c.value)))
        return {one.message_id: one for one in self._messages(statement, session_id)}

    def interval_resets(self, session_id: str, depth: int) -> tuple[Reset | None, Reset | None]:
        """On the active path: the last reset before the message at `depth` and the first one behind it."""
        statement = (
            sa.select(ResetRow).where(ResetRow.transcript_pk == self._transcript(session_id).id, RESET_ON_PATH).limit(1)
        )
        before = self._session.scalar(
            statement.where(ResetRow.depth < depth).order_by(ResetRow.depth.desc(), ResetRow.id.desc())
        )
        behind = self._session.scalar(statement.where(ResetRow.depth >= depth).order_by(ResetRow.depth, ResetRow.id))
        return (
            mapping.reset(before, session_id) if before else None,
            mapping.reset(behind, session_id) if behind else None,
        )

    def nth_spoken(self, session_id: str, stretch: Stretch, count: int) -> Message | None:
        """The `count`-th user or assistant message of the stretch from its end, or the first if there are fewer."""
        statement = self._within(session_id, stretch).where(MessageRow.role.in_(SPOKEN)).limit(1)
        nth = self._messages(statement.order_by(MessageRow.depth.desc()).offset(count - 1), session_id)
        first = nth or self._messages(statement.order_by(MessageRow.depth), session_id)
        return first[0] if first else None

    def older(
        self, session_id: str, stretch: Stretch, before: int, limit: int, *, tools: bool, offset: int = 0
    ) -> list[Message]:
        """The last `limit` messages below the depth `before`, after leaving out `offset` of them; oldest first."""
        statement = self._within(session_id, stretch, tools=tools).where(MessageRow.depth < before)
        statement = statement.order_by(MessageRow.depth.desc()).limit(limit).offset(offset)
        return self._messages(statement, session_id)[::-1]

    def newer(self, session_id: str, stretch: Stretch, after: int, limit: int, *, tools: bool) -> list[Message]:
        """The first `limit` messages of the stretch above the depth `after`; oldest first."""
        statement = self._within(session_id, stretch, tools=tools).where(MessageRow.depth > after)
        return self._messages(statement.order_by(MessageRow.depth).limit(limit), session_id)

    def count(self, session_id: str, stretch: Stretch, *, tools: bool) -> int:
        """How many messages the stretch holds: a difference of counters, whatever its length."""
        low, high = max(stretch.kept_until, stretch.first - 1), stretch.last
        if not tools:
            low, high = self._shown_at(session_id, low), self._shown_at(session_id, high)
        return stretch.kept + max(high - low, 0)

    def _shown_at(self, session_id: str, depth: int) -> int:
        if depth <= 0:
            return 0
        return self._session.scalars(
            sa.select(MessageRow.shown).where(
                MessageRow.transcript_pk == self._transcript(session_id).id, ON_PATH, MessageRow.depth == depth
            )
        ).one()

    def _select(self, session_id: str) -> sa.Select[MessageRow, str]:
        return (
            sa.select(MessageRow, Parent.message_id)
            .outerjoin(Parent, Parent.id == MessageRow.parent_pk)
            .where(MessageRow.transcript_pk == self._transcript(session_id).id)
        )

    def _within(self, session_id: str, stretch: Stretch, *, tools: bool = True) -> sa.Select[MessageRow, str]:
        statement = self._select(session_id).where(
            ON_PATH, MessageRow.depth >= stretch.first, MessageRow.depth <= stretch.last
        )
        if stretch.kept_until >= stretch.first:
            statement = statement.where(sa.or_(MessageRow.depth > stretch.kept_until, MessageRow.role.in_(SPOKEN)))
        return statement if tools else statement.where(MessageRow.role != Role.TOOL)

    def _messages(self, statement: sa.Select[MessageRow, str], session_id: str) -> list[Message]:
        rows = self._session.execute(statement).all()
        return [mapping.message(row, session_id, parent_id) for row, parent_id in rows]

    def _transcript(self, session_id: str) -> TranscriptRow:
        row = self._transcripts.get(session_id)
        if row is None:
            row = self._session.scalar(sa.select(TranscriptRow).where(TranscriptRow.session_id == session_id))
            if row is None:
                raise SessionNotFound
            self._transcripts[session_id] = row
        return row
