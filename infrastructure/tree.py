"""The messages repository: the tree of messages, branches and resets of each transcript."""

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa

from backscroll.domain.model import SPOKEN, Branch, Message, Reset, Role
from backscroll.domain.ports import Clock, NewId
from backscroll.infrastructure import mapping
from backscroll.infrastructure.heads import BRANCH_ON_PATH, HeadReads, Tip
from backscroll.infrastructure.hooks import OWN_STATEMENT, NewMessageRow, insert_messages
from backscroll.infrastructure.packing import packed
from backscroll.infrastructure.pages import ON_PATH, RESET_ON_PATH
from backscroll.infrastructure.pending import mark_pending
from backscroll.infrastructure.rows import (
    LAST_KEY,
    BranchRow,
    MessageRow,
    ResetRow,
)
from backscroll.infrastructure.transaction import Transaction
from backscroll.infrastructure.types import Json

# Branches are also moved past the ORM: what it remembers of one may be old.
_AS_STORED = {"populate_existing": True}


class SqlMessages(HeadReads):
    """Messages, branches and resets in SQL.

    `inline_limit` is the number of messages that may change sides of the active path with the index following at once.
    """

    def __init__(self, transaction: Transaction, inline_limit: int, new_id: NewId, clock: Clock) -> None:
        super().__init__(transaction)
        self._inline_limit = inline_limit
        self._new_id = new_id
        self._clock = clock

    def extend(self, branch: Branch, messages: Sequence[Message]) -> list[Message]:
        """Stores messages at the head of a branch, in order, on the active path if the branch is; moves the head."""
        place, head = self._place(branch.session_id), self._head(branch)
        # Keys are given here, not by the database, so that each message can name its parent before it is stored.
        pk = self._transaction.statements.scalar(LAST_KEY) or 0 if self._last_key is None else self._last_key
        parent_pk, parent_id, depth, shown = head.tip
        rows: list[NewMessageRow] = []
        stored: list[Message] = []
        for message in messages:
            pk, depth, shown = pk + 1, depth + 1, shown + (message.role is not Role.TOOL)
            placed = message.placed(parent_id, depth, active=branch.active)
            rows.append(mapping.new_message(placed, pk, place.pk, parent_pk, head.reset_pk, shown))
            stored.append(placed)
            parent_pk, parent_id = pk, placed.message_id
        insert_messages(self._transaction.statements, rows, head.branch_pk, place.scope)
        self._last_key = pk
        self._heads[branch.session_id, branch.branch_id] = head._replace(tip=Tip(pk, parent_id, depth, shown))
        return stored

    def replace(self, message: Message) -> None:
        """Stores the changed parts of a message."""
        row = self._message_row(message.session_id, message.message_id)
        row.text = message.text
        row.parts = packed(message.parts)
        self._transaction.session.flush()

    def branches(self, session_id: str) -> list[Branch]:
        """The branches, the active one first, then the newest."""
        rows = self._transaction.session.execute(
            sa.select(BranchRow, MessageRow.message_id, MessageRow.depth)
            .outerjoin(MessageRow, MessageRow.id == BranchRow.head_pk)
            .where(BranchRow.transcript_pk == self._place(session_id).pk)
            .order_by(BranchRow.active.desc(), BranchRow.id.desc())
            .execution_options(**_AS_STORED)
        )
        return [mapping.branch(branch, session_id, head, depth) for branch, head, depth in rows]

    def branch_ending_at(self, session_id: str, message_id: str | None) -> Branch:
        """The branch that ends in that message (None: before the first), stored inactive if there is none yet."""
        pk = self._place(session_id).pk
        head = self._message_row(session_id, message_id) if message_id is not None else None
        if head is None or not head.active:
            reset_pk = head.reset_pk if head else None
        else:
            reset_pk = self._transaction.session.scalar(
                sa.select(ResetRow.id)
                .where(ResetRow.transcript_pk == pk, RESET_ON_PATH, ResetRow.depth <= head.depth)
                .order_by(ResetRow.depth.desc(), ResetRow.id.desc())
                .limit(1)
            )
        row = self._transaction.session.scalar(
            sa.select(BranchRow)
            .where(
                BranchRow.transcript_pk == pk,
                BranchRow.head_pk.is_not_distinct_from(head.id if head else None),
                BranchRow.reset_pk.is_not_distinct_from(reset_pk),
            )
            .execution_options(**_AS_STORED)
        )
        if row is None:
            row = BranchRow(
                transcript_pk=pk,
                branch_id=self._new_id(),
                head_pk=head.id if head else None,
                reset_pk=reset_pk,
                active=False,
                created_at=self._clock(),
            )
            self._transaction.session.add(row)
            self._transaction.session.flush()
        return mapping.branch(row, session_id, head.message_id if head else None, head.depth if head else None)

    def activate(self, branch: Branch) -> Branch:
        """Makes the branch's line the active path, with the index following it now or, when much changes, later."""
        self._shown.clear()
        pk, head = self._place(branch.session_id).pk, self._head(branch)
        joining, fork = self._climb(head.tip.pk)
        leaving = sa.and_(MessageRow.transcript_pk == pk, ON_PATH, MessageRow.depth > fork)
        left = self._transaction.session.scalar(sa.select(sa.func.max(MessageRow.depth)).where(leaving)) or fork
        if left - fork + len(joining) <= self._inline_limit:
            for message in self._transaction.session.scalars(sa.select(MessageRow).where(leaving)).all():
                message.active = False
            for message in self._transaction.session.scalars(sa.select(MessageRow).where(_ids(joining))).all():
                message.active = True
            self._transaction.session.flush()
        else:
            self._transaction.session.flush()
            for condition, active in ((leaving, False), (_ids(joining), True)):
                self._transaction.session.execute(
                    sa.update(MessageRow).where(condition).values(active=active, edits=MessageRow.edits + 1),
                    execution_options={**OWN_STATEMENT, "synchronize_session": False},
                )
            self._transaction.session.expire_all()
            mark_pending(self._transaction.session, pk)
        self._move_resets(pk, head.reset_pk, fork)
        connection = self._transaction.connection
        connection.exec_driver_sql(_LEAVE_BRANCH, (pk,))
        connection.exec_driver_sql(_TAKE_BRANCH, (head.branch_pk,))
        return replace(branch, active=True)

    def _climb(self, pk: int | None) -> tuple[list[int], int]:
        """The messages from `pk` up to the active path, and the depth at which they leave it (0: nowhere)."""
        if pk is None:
            return [], 0
        rows = self._transaction.session.execute(_CLIMB, {"head": pk}).all()
        return [row.id for row in rows if not row.active], rows[-1].depth if rows[-1].active else 0

    def _move_resets(self, transcript_pk: int, reset_pk: int | None, fork: int) -> None:
        """Makes the resets behind the fork those of the line whose last reset is `reset_pk`."""
        behind = sa.and_(ResetRow.transcript_pk == transcript_pk, RESET_ON_PATH, ResetRow.depth >= fork)
        for left in self._transaction.session.scalars(sa.select(ResetRow).where(behind)).all():
            left.active = False
        while reset_pk is not None and (joined := self._transaction.session.get_one(ResetRow, reset_pk)).depth >= fork:
            joined.active = True
            reset_pk = joined.previous_pk
        self._transaction.session.flush()

    def add_reset(self, reset: Reset) -> Reset:
        """Stores a reset at the head of the active branch. Sets `after`, the depths and `kept`."""
        pk = self._place(reset.session_id).pk
        branch = self._transaction.session.scalars(
            sa.select(BranchRow).where(BranchRow.transcript_pk == pk, BRANCH_ON_PATH).execution_options(**_AS_STORED)
        ).one()
        head = self._transaction.session.get(MessageRow, branch.head_pk) if branch.head_pk is not None else None
        first = self._message_row(reset.session_id, reset.first_kept) if reset.first_kept is not None else None
        kept = 0
        if first is not None:
            spoken = sa.and_(MessageRow.transcript_pk == pk, ON_PATH, MessageRow.role.in_(SPOKEN))
            kept = self._transaction.session.scalars(
                sa.select(sa.func.count()).select_from(MessageRow).where(spoken, MessageRow.depth >= first.depth)
            ).one()
        row = ResetRow(
            transcript_pk=pk,
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
        self._transaction.session.add(row)
        self._transaction.session.flush()
        branch.reset_pk = row.id
        self._transaction.session.flush()
        self._heads.pop((reset.session_id, branch.branch_id), None)
        return replace(
            reset,
            after=head.message_id if head else None,
            depth=row.depth,
            first_kept_depth=row.first_kept_depth,
            kept=kept,
            active=True,
        )

    def reset_known(self, session_id: str, reset_id: str) -> bool:
        """Whether a reset of that id is stored in the transcript."""
        statement = sa.select(ResetRow.id).where(
            ResetRow.transcript_pk == self._place(session_id).pk, ResetRow.reset_id == reset_id
        )
        return self._transaction.session.scalar(statement) is not None

    def _message_row(self, session_id: str, message_id: str) -> MessageRow:
        statement = sa.select(MessageRow).where(
            MessageRow.transcript_pk == self._place(session_id).pk, MessageRow.message_id == message_id
        )
        return self._transaction.session.scalars(statement).one()


def _ids(pks: Sequence[int]) -> sa.ColumnElement[bool]:
    # One JSON parameter: an IN list would meet SQLite's limit on the number of variables.
    values = sa.func.json_each(sa.bindparam(None, list(pks), type_=Json)).table_valued("value")
    return MessageRow.id.in_(sa.select(values.c.value))


_LEAVE_BRANCH = "UPDATE backscroll_branches SET active = 0 WHERE transcript_pk = ? AND active = 1"
_TAKE_BRANCH = "UPDATE backscroll_branches SET active = 1 WHERE id = ?"
_CLIMB = sa.text(
    """WITH RECURSIVE line(id, parent_pk, depth, active) AS (
        SELECT id, parent_pk, depth, active FROM backscroll_messages WHERE id = :head
        UNION ALL
        SELECT m.id, m.parent_pk, m.depth, m.active FROM backscroll_messages AS m
        JOIN line ON m.id = line.parent_pk WHERE NOT line.active
    ) SELECT id, depth, active FROM line ORDER BY depth DESC"""
)
