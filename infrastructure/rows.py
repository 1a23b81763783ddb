"""The tables, as declarative rows. Integer keys are never reused, so that an index row can never come to mean
another message; every key that a caller sees is a text column of its own."""

from datetime import datetime
from typing import Any, ClassVar, cast

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.orm import Mapped, mapped_column

from backscroll.domain.model import ResetReason, Role, SessionKind
from backscroll.infrastructure.types import Json, UtcMicroseconds, Word

PREFIX = "backscroll_"
VERSION_TABLE = PREFIX + "alembic_version"


class Row(orm.DeclarativeBase):
    """Base of every row; its metadata is what migrations are compared with."""

    metadata = sa.MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar = {datetime: UtcMicroseconds, bool: sa.Boolean(create_constraint=False)}


_NEVER_REUSED = {"sqlite_autoincrement": True}


class AgentRow(Row):
    """An agent that owns sessions."""

    __tablename__ = PREFIX + "agents"
    __table_args__ = (sa.UniqueConstraint("agent_id"), _NEVER_REUSED)

    id: Mapped[int] = mapped_column(primary_key=True)
    agent_id: Mapped[str]


class SessionRow(Row):
    """A session. `spawned_by` and `owner` are keys, not references: they may name sessions stored later or never."""

    __tablename__ = PREFIX + "sessions"
    __table_args__ = (
        sa.UniqueConstraint("session_key"),
        sa.Index(None, "agent_pk"),
        sa.Index(None, "updated_at"),
        sa.Index(None, "spawned_by", sqlite_where=sa.text("spawned_by IS NOT NULL")),
        sa.Index(None, "owner", sqlite_where=sa.text("owner IS NOT NULL")),
        _NEVER_REUSED,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    session_key: Mapped[str]
    agent_pk: Mapped[int] = mapped_column(sa.ForeignKey(AgentRow.id))
    kind: Mapped[SessionKind] = mapped_column(Word(SessionKind))
    title: Mapped[str | None]
    spawned_by: Mapped[str | None]
    owner: Mapped[str | None]
    incognito: Mapped[bool]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    meta: Mapped[dict[str, Any]] = mapped_column("metadata", Json)

    agent: Mapped[AgentRow] = orm.relationship(lazy="joined", innerjoin=True)


class TranscriptRow(Row):
    """A transcript; each session has exactly one that is current."""

    __tablename__ = PREFIX + "transcripts"
    __table_args__ = (
        sa.UniqueConstraint("session_id"),
        sa.Index(None, "session_pk"),
        sa.Index(
            "uq_backscroll_transcripts_current", "session_pk", unique=True, sqlite_where=sa.text("is_current = 1")
        ),
        _NEVER_REUSED,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    session_pk: Mapped[int] = mapped_column(sa.ForeignKey(SessionRow.id, ondelete="CASCADE"))
    session_id: Mapped[str]
    started_at: Mapped[datetime]
    is_current: Mapped[bool]
    reason: Mapped[ResetReason | None] = mapped_column(Word(ResetReason))

    session: Mapped[SessionRow] = orm.relationship(lazy="joined", innerjoin=True)


class MessageRow(Row):
    """A message, a node of its transcript's tree.

    `depth` counts the messages and `shown` those that are no tool messages, from the root to this one; both never
    change, so that ranges and totals of a line are differences. `reset_pk` names the last reset before it on its
    line. `text` is what was said; `parts` is NULL for a message of one text part, else what `packing.py` makes of
    them. `search_text` tells what the index holds instead of `text` (see `bodies`), and `indexed` whether it holds this
    message (NULL: nobody has decided yet). `edits` counts the changes that were made with the index in mind;
    triggers leave the transcript of any other change pending.

    `parent_pk` is no foreign key: its check would scan the table for each row that a session's deletion removes.
    """

    __tablename__ = PREFIX + "messages"
    __table_args__ = (
        sa.UniqueConstraint("transcript_pk", "message_id"),
        sa.Index("ix_backscroll_messages_path", "transcript_pk", "depth", sqlite_where=sa.text("active = 1")),
        _NEVER_REUSED,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    transcript_pk: Mapped[int] = mapped_column(sa.ForeignKey(TranscriptRow.id, ondelete="CASCADE"))
    message_id: Mapped[str]
    parent_pk: Mapped[int | None]
    reset_pk: Mapped[int | None]
    depth: Mapped[int]
    shown: Mapped[int]
    role: Mapped[Role] = mapped_column(Word(Role), active_history=True)
    active: Mapped[bool] = mapped_column(active_history=True)
    created_at: Mapped[datetime]
    text: Mapped[str] = mapped_column(active_history=True)
    parts: Mapped[str | None] = mapped_column(sa.Text)
    meta: Mapped[dict[str, Any] | None] = mapped_column("metadata", Json)
    indexed: Mapped[bool | None] = mapped_column(active_history=True)
    edits: Mapped[int] = mapped_column(server_default=sa.text("0"))
    search_text: Mapped[str | None] = mapped_column(active_history=True)


class BranchRow(Row):
    """A line of messages from the root to its head. `reset_pk` names the last reset on it."""

    __tablename__ = PREFIX + "branches"
    __table_args__ = (
        sa.UniqueConstraint("transcript_pk", "branch_id"),
        sa.Index(None, "head_pk"),
        sa.Index("uq_backscroll_branches_active", "transcript_pk", unique=True, sqlite_where=sa.text("active = 1")),
        _NEVER_REUSED,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    transcript_pk: Mapped[int] = mapped_column(sa.ForeignKey(TranscriptRow.id, ondelete="CASCADE"))
    branch_id: Mapped[str]
    head_pk: Mapped[int | None] = mapped_column(sa.ForeignKey(MessageRow.id, ondelete="CASCADE"))
    reset_pk: Mapped[int | None]
    active: Mapped[bool]
    created_at: Mapped[datetime]


AGENTS, SESSIONS, TRANSCRIPTS, MESSAGES, BRANCHES = (
    cast(sa.Table, row.__table__) for row in (AgentRow, SessionRow, TranscriptRow, MessageRow, BranchRow)
)
"""The tables themselves, for reading columns instead of rows, and for statements that bring the index along."""

LAST_KEY = f"SELECT seq FROM sqlite_sequence WHERE name = '{MESSAGES.name}'"
"""The greatest key that a message ever had."""


class ResetRow(Row):
    """A boundary behind `after_pk` (NULL: before the first message), which has that `depth` and `shown`."""

    __tablename__ = PREFIX + "resets"
    __table_args__ = (
        sa.UniqueConstraint("transcript_pk", "reset_id"),
        sa.Index("ix_backscroll_resets_path", "transcript_pk", "depth", sqlite_where=sa.text("active = 1")),
        _NEVER_REUSED,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    transcript_pk: Mapped[int] = mapped_column(sa.ForeignKey(TranscriptRow.id, ondelete="CASCADE"))
    reset_id: Mapped[str]
    previous_pk: Mapped[int | None]
    after_pk: Mapped[int | None]
    depth: Mapped[int]
    shown: Mapped[int]
    first_kept_pk: Mapped[int | None]
    first_kept_depth: Mapped[int | None]
    kept: Mapped[int]
    reason: Mapped[ResetReason] = mapped_column(Word(ResetReason))
    active: Mapped[bool]
    created_at: Mapped[datetime]


class PendingRow(Row):
    """A transcript that waits to be reindexed. Its messages up to the message id `done_to` are done.

    While a worker has claimed it (or it failed and rests), nobody else takes it before `claimed_until`.
    """

    __tablename__ = PREFIX + "pending"

    transcript_pk: Mapped[int] = mapped_column(
        sa.ForeignKey(TranscriptRow.id, ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    done_to: Mapped[str] = mapped_column(server_default=sa.text("''"))
    claimed_by: Mapped[str | None]
    claimed_until: Mapped[datetime | None]
    failure: Mapped[str | None]


class IndexStateRow(Row):
    """The one row that tells which transcripts predate the index: those up to `legacy_pk`, all of them pending.

    A number instead of a mark on each of them, so that the index can be added to a store of any size at once.
    `rewrites` counts the changes of the index by which earlier counts of its rows become wrong (see `frequencies`).
    `parts_form` tells how parts are packed. By both a store is told from one of an older release, where the tables
    alone can tell.
    """

    __tablename__ = PREFIX + "index_state"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    legacy_pk: Mapped[int]
    parts_form: Mapped[int] = mapped_column(server_default=sa.text("2"))
    rewrites: Mapped[int] = mapped_column(server_default=sa.text("0"))


class TimesRow(Row):
    """Before which time the messages with keys from 1,024 times `block` on were said, as many as those; see `times`."""

    __tablename__ = PREFIX + "times"

    block: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    newest: Mapped[int] = mapped_column(sa.BigInteger)


class KinRow(Row):
    """That a session claims a session of another agent as its parent; kept where each agent has a file of its own.

    A hint, written before the session itself: whether it is true, the child's own file tells.
    """

    __tablename__ = PREFIX + "kin"
    __table_args__ = (sa.Index(None, "child_key"), sa.Index(None, "parent_agent"))

    parent_key: Mapped[str] = mapped_column(primary_key=True)
    child_key: Mapped[str] = mapped_column(primary_key=True)
    parent_agent: Mapped[str | None]
    child_agent: Mapped[str]
