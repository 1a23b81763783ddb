"""The messages repository: the tree of messages, branches and resets of each transcript."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from backscroll.domain.model import SPOKEN, Branch, Line, Message, Reset, Role
from backscroll.domain.ports import Clock, NewId
from backscroll.infrastructure import mapping
from backscroll.infrastructure.hooks import OWN_STATEMENT, IndexedSession
from backscroll.infrastructure.pages import ON_PATH, RESET_ON_PATH, Parent, PathReads
from backscroll.infrastructure.pending import mark_pending
from backscroll.infrastructure.rows import BranchRow, MessageRow, ResetRow, SessionRow, TranscriptRow
from backscroll.infrastructure.types import Json

BRANCH_ON_PATH: sa.ColumnElement[bool] = sa.literal_column("backscroll_branches.active = 1")
CURRENT: sa.ColumnElement[bool] = sa.literal_column("backscroll_transcripts.is_current = 1")


class SqlMessages(PathReads):
    """Messages, branches and resets in SQL.

    `inline_limit` is the number of messages that may change sides of the active path with the index following at once.
    """

    def __init__(self, session: IndexedSession, inline_limit: int, new_id: NewId, clock: Clock) -> None:
        super().__init__(session)
        self._inline_limit = inline_limit
        self._new_id = new_id
        self._clock = clock

    def line(self, session_id: str) -> Line | None:
        """Where the transcript is being written."""
        return self._line(TranscriptRow.session_id == session_id)

    def current_line(self, session_key: str) -> Line | None:
        """Where the session's current transcript is being written."""
        return self._line(sa.and_(SessionRow.session_key == session_key, CURRENT))

    def _line(self, condition: sa.ColumnElement[bool]) -> Line | None:
        found = self._session.execute(
            sa.select(TranscriptRow, BranchRow, MessageRow, Parent.message_id)
            .join(TranscriptRow.session)
            .join(BranchRow, sa.and_(BranchRow.transcript_pk == TranscriptRow.id, BRANCH_ON_PATH))
            .outerjoin(MessageRow, MessageRow.id == BranchRow.head_pk)
            .outerjoin(Parent, Parent.id == MessageRow.parent_pk)
            .where(condition)
        ).first()
        if found is None:
            return None
        transcript, branch, head, parent_id = found
        session_id = transcript.session_id
        self._transcripts[session_id] = transcript
        latest = self._session.get(ResetRow, branch.reset_pk) if branch.reset_pk is not None else None
        return Line(
            session=mapping.session(transcript.session, session_id),
            transcript=mapping.transcript(transcript),
            branch=mapping.branch(branch, session_id, head),
            head=mapping.message(head, session_id, parent_id) if head else None,
            reset=mapping.reset(latest, session_id) if latest else None,
        )

    def extend(self, branch: Branch, messages: Sequence[Message]) -> list[Message]:
        """Stores messages at the head of a branch, in order, on the active path if the branch is; moves the head."""
        transcript = self._transcript(branch.session_id)
        row = self._branch_row(branch)
        head = self._session.get(MessageRow, row.head_pk) if row.head_pk is not None else None
        parent_pk, parent_id = (head.id, head.message_id) if head else (None, None)
        depth, shown = (head.depth, head.shown) if head else (0, 0)
        # Keys are given here, not by the database, so that each message can name its parent before it is stored.
        pk = self._session.scalar(_LAST_KEY) or 0
        values: list[dict[str, Any]] = []
        stored: list[Message] = []
        for message in messages:
            pk, depth, shown = pk + 1, depth + 1, shown + (message.role is not Role.TOOL)
            placed = replace(message, parent_id=parent_id, depth=depth, active=branch.active)
            place = {"id": pk, "transcript_pk": transcript.id, "parent_pk": parent_pk, "reset_pk": row.reset_pk}
            values.append({**mapping.message_values(placed), **place, "depth": depth, "shown": shown})
            stored.append(placed)
            parent_pk, parent_id = pk, message.message_id
        self._session.insert_messages(transcript, values)
        row.head_pk = pk
        self._session.flush()
        return stored

    def replace(self, message: Message) -> None:
        """Stores the changed parts of a message."""
        row = self._message_row(message.session_id, message.message_id)
        row.text = message.text
        row.parts = mapping.packed(message.parts)
        self._session.flush()

    def branches(self, session_id: str) -> list[Branch]:
        """The branches, the active one first, then the newest."""
        rows = self._session.execute(
            sa.select(BranchRow, MessageRow)
            .outerjoin(MessageRow, MessageRow.id == BranchRow.head_pk)
            .where(BranchRow.transcript_pk == self._transcript(session_id).id)
            .order_by(BranchRow.active.desc(), BranchRow.id.desc())
        )
        return [mapping.branch(branch, session_id, head) for branch, head in rows]

    def branch_ending_at(self, session_id: str, message_id: str | None) -> Branch:
        """The branch that ends in that message (None: before the first), stored inactive if there is none yet."""
        transcript = self._transcript(session_id)
        head = self._message_row(session_id, message_id) if message_id is not None else None
        if head is None or not head.active:
            reset_pk = head.reset_pk if head else None
        else:
            reset_pk = self._session.scalar(
                sa.select(ResetRow.id)
                .where(ResetRow.transcript_pk == transcript.id, RESET_ON_PATH, ResetRow.depth <= head.depth)
                .order_by(ResetRow.depth.desc(), ResetRow.id.desc())
                .limit(1)
            )
        row = self._session.scalar(
            sa.select(BranchRow).where(
                BranchRow.transcript_pk == transcript.id,
                BranchRow.head_pk.is_not_distinct_from(head.id if head else None),
                BranchRow.reset_pk.is_not_distinct_from(reset_pk),
            )
        )
        if row is None:
            row = BranchRow(
                transcript_pk=transcript.id,
                branch_id=self._new_id(),
                head_pk=head.id if head else None,
                reset_pk=reset_pk,
                active=False,
                created_at=self._clock(),
            )
            self._session.add(row)
            self._session.flush()
        return mapping.branch(row, session_id, head)

    def activate(self, branch: Branch) -> Branch:
        """Makes the branch's line the active path, with the index following it now or, when much changes, later."""
        transcript = self._transcript(branch.session_id)
        row = self._branch_row(branch)
        joining, fork = self._climb(row.head_pk)
        leaving = sa.and_(MessageRow.transcript_pk == transcript.id, ON_PATH, MessageRow.depth > fork)
        left = self._session.scalar(sa.select(sa.func.max(MessageRow.depth)).where(leaving)) or fork
        if left - fork + len(joining) <= self._inline_limit:
            for message in self._session.scalars(sa.select(MessageRow).where(leaving)).all():
                message.active = False
            for message in self._session.scalars(sa.select(MessageRow).where(_ids(joining))).all():
                message.active = True
            self._session.flush()
        else:
            self._session.flush()
            for condition, active in ((leaving, False), (_ids(joining), True)):
                self._session.execute(
                    sa.update(MessageRow).where(condition).values(active=active, edits=MessageRow.edits + 1),
                    execution_options={**OWN_STATEMENT, "synchronize_session": False},
                )
            self._session.expire_all()
            mark_pending(self._session, transcript.id)
        self._move_resets(transcript.id, row.reset_pk, fork)
        self._session.execute(
            sa.update(BranchRow).where(BranchRow.transcript_pk == transcript.id, BRANCH_ON_PATH).values(active=False),
            execution_options=OWN_STATEMENT,
        )
        row.active = True
        self._session.flush()
        return replace(branch, active=True)

    def _climb(self, pk: int | None) -> tuple[list[int], int]:
        """The messages from `pk` up to the active path, and the depth at which they leave it (0: nowhere)."""
        if pk is None:
            return [], 0
        rows = self._session.execute(_CLIMB, {"head": pk}).all()
        return [row.id for row in rows if not row.active], rows[-1].depth if rows[-1].active else 0

    def _move_resets(self, transcript_pk: int, reset_pk: int | None, fork: int) -> None:
        """Makes the resets behind the fork those of the line whose last reset is `reset_pk`."""
        behind = sa.and_(ResetRow.transcript_pk == transcript_pk, RESET_ON_PATH, ResetRow.depth >= fork)
        for left in self._session.scalars(sa.select(ResetRow).where(behind)).all():
            left.active = False
        while reset_pk is not None and (joined := self._session.get_one(ResetRow, reset_pk)).depth >= fork:
            joined.active = True
            reset_pk = joined.previous_pk
        self._session.flush()

    def add_reset(self, reset: Reset) -> Reset:
        """Stores a reset at the head of the active branch. Sets `after`, the depths and `kept`."""
        transcript = self._transcript(reset.session_id)
        branch = self._session.scalars(
            sa.select(BranchRow).where(BranchRow.transcript_pk == transcript.id, BRANCH_ON_PATH)
        ).one()
        head = self._session.get(MessageRow, branch.head_pk) if branch.head_pk is not None else None
        first = self._message_row(reset.session_id, reset.first_kept) if reset.first_kept is not None else None
        kept = 0
        if first is not None:
            spoken = sa.and_(MessageRow.transcript_pk == transcript.id, ON_PATH, MessageRow.role.in_(SPOKEN))
            kept = self._session.scalars(
                sa.select(sa.func.count()).select_from(MessageRow).where(spoken, MessageRow.depth >= first.depth)
            ).one()
        row = ResetRow(
            transcript_pk=transcript.id,
            reset_id=reset.reset_id,
            previous_pk=branch.reset_pk,
            after_pk=head.id if head else None,
            depth=head.depth if head else 0,
            shown=head.shown if head else 0,
            first_kept_pk=first.id if first else None,
            first_kept_depth=first.depth if first else None,
            kept=kept,
            reason=reset.reason,
            active=True,
            created_at=reset.created_at,
        )
        self._session.add(row)
        self._session.flush()
        branch.reset_pk = row.id
        self._session.flush()
        return mapping.reset(row, reset.session_id)

    def reset_known(self, session_id: str, reset_id: str) -> bool:
        """Whether a reset of that id is stored in the transcript."""
        statement = sa.select(ResetRow.id).where(
            ResetRow.transcript_pk == self._transcript(session_id).id, ResetRow.reset_id == reset_id
        )
        return self._session.scalar(statement) is not None

    def _branch_row(self, branch: Branch) -> BranchRow:
        statement = sa.select(BranchRow).where(
            BranchRow.transcript_pk == self._transcript(branch.session_id).id, BranchRow.branch_id == branch.branch_id
        )
        return self._session.scalars(statement).one()

    def _message_row(self, session_id: str, message_id: str) -> MessageRow:
        statement = sa.select(MessageRow).where(
            MessageRow.transcript_pk == self._transcript(session_id).id, MessageRow.message_id == message_id
        )
        return self._session.scalars(statement).one()


def _ids(pks: Sequence[int]) -> sa.ColumnElement[bool]:
    # One JSON parameter: an IN list would meet SQLite's limit on the number of variables.
    values = sa.func.json_each(sa.bindparam(None, list(pks), type_=Json)).table_valued("value")
    return MessageRow.id.in_(sa.select(values.c.value))


_LAST_KEY = sa.text(f"SELECT seq FROM sqlite_sequence WHERE name = '{MessageRow.__tablename__}'")
_CLIMB = sa.text(
    """WITH RECURSIVE line(id, parent_pk, depth, active) AS (
        SELECT id, parent_pk, depth, active FROM backscroll_messages WHERE id = :head
        UNION ALL
        SELECT m.id, m.parent_pk, m.depth, m.active FROM backscroll_messages AS m
        JOIN line ON m.id = line.parent_pk WHERE NOT line.active
    ) SELECT id, depth, active FROM line ORDER BY depth DESC"""
)
