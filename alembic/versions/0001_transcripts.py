"""Sessions, transcripts, messages, branches and resets, without an index.

Revision: 0001_backscroll, after: nothing
"""

import sqlalchemy as sa

from alembic import op

revision = "0001_backscroll"
down_revision = None
branch_labels = ("backscroll",)
depends_on = None

NEVER_REUSED = {"sqlite_autoincrement": True}
ON_PATH = sa.text("active = 1")


def key(column: str, table: str, name: str, ondelete: str | None = "CASCADE") -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{table}.id"], name=name, ondelete=ondelete)


def upgrade() -> None:
    op.create_table(
        "backscroll_agents",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.UniqueConstraint("agent_id", name="uq_backscroll_agents_agent_id"),
        **NEVER_REUSED,
    )
    op.create_table(
        "backscroll_sessions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("session_key", sa.String, nullable=False),
        sa.Column("agent_pk", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("title", sa.String),
        sa.Column("spawned_by", sa.String),
        sa.Column("owner", sa.String),
        sa.Column("incognito", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.UniqueConstraint("session_key", name="uq_backscroll_sessions_session_key"),
        key("agent_pk", "backscroll_agents", "fk_backscroll_sessions_agent_pk", None),
        **NEVER_REUSED,
    )
    op.create_index("ix_backscroll_sessions_agent_pk", "backscroll_sessions", ["agent_pk"])
    op.create_index("ix_backscroll_sessions_updated_at", "backscroll_sessions", ["updated_at"])
    for parent in ("spawned_by", "owner"):
        op.create_index(
            f"ix_backscroll_sessions_{parent}",
            "backscroll_sessions",
            [parent],
            sqlite_where=sa.text(f"{parent} IS NOT NULL"),
        )
    op.create_table(
        "backscroll_transcripts",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("session_pk", sa.Integer, nullable=False),
        sa.Column("session_id", sa.String, nullable=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("is_current", sa.Boolean, nullable=False),
        sa.Column("reason", sa.String(16)),
        sa.UniqueConstraint("session_id", name="uq_backscroll_transcripts_session_id"),
        key("session_pk", "backscroll_sessions", "fk_backscroll_transcripts_session_pk"),
        **NEVER_REUSED,
    )
    op.create_index("ix_backscroll_transcripts_session_pk", "backscroll_transcripts", ["session_pk"])
    op.create_index(
        "uq_backscroll_transcripts_current",
        "backscroll_transcripts",
        ["session_pk"],
        unique=True,
        sqlite_where=sa.text("is_current = 1"),
    )
    op.create_table(
        "backscroll_messages",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("transcript_pk", sa.Integer, nullable=False),
        sa.Column("message_id", sa.String, nullable=False),
        sa.Column("parent_pk", sa.Integer),
        sa.Column("reset_pk", sa.Integer),
        sa.Column("depth", sa.Integer, nullable=False),
        sa.Column("shown", sa.Integer, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("text", sa.String, nullable=False),
        sa.Column("parts", sa.Text),
        sa.Column("metadata", sa.Text),
        sa.UniqueConstraint("transcript_pk", "message_id", name="uq_backscroll_messages_transcript_pk_message_id"),
        key("transcript_pk", "backscroll_transcripts", "fk_backscroll_messages_transcript_pk"),
        **NEVER_REUSED,
    )
    op.create_index(
        "ix_backscroll_messages_path", "backscroll_messages", ["transcript_pk", "depth"], sqlite_where=ON_PATH
    )
    op.create_table(
        "backscroll_branches",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("transcript_pk", sa.Integer, nullable=False),
        sa.Column("branch_id", sa.String, nullable=False),
        sa.Column("head_pk", sa.Integer),
        sa.Column("reset_pk", sa.Integer),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("transcript_pk", "branch_id", name="uq_backscroll_branches_transcript_pk_branch_id"),
        key("transcript_pk", "backscroll_transcripts", "fk_backscroll_branches_transcript_pk"),
        key("head_pk", "backscroll_messages", "fk_backscroll_branches_head_pk"),
        **NEVER_REUSED,
    )
    op.create_index("ix_backscroll_branches_head_pk", "backscroll_branches", ["head_pk"])
    op.create_index(
        "uq_backscroll_branches_active", "backscroll_branches", ["transcript_pk"], unique=True, sqlite_where=ON_PATH
    )
    op.create_table(
        "backscroll_resets",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("transcript_pk", sa.Integer, nullable=False),
        sa.Column("reset_id", sa.String, nullable=False),
        sa.Column("previous_pk", sa.Integer),
        sa.Column("after_pk", sa.Integer),
        sa.Column("depth", sa.Integer, nullable=False),
        sa.Column("shown", sa.Integer, nullable=False),
        sa.Column("first_kept_pk", sa.Integer),
        sa.Column("first_kept_depth", sa.Integer),
        sa.Column("kept", sa.Integer, nullable=False),
        sa.Column("reason", sa.String(16), nullable=False),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("transcript_pk", "reset_id", name="uq_backscroll_resets_transcript_pk_reset_id"),
        key("transcript_pk", "backscroll_transcripts", "fk_backscroll_resets_transcript_pk"),
        **NEVER_REUSED,
    )
    op.create_index("ix_backscroll_resets_path", "backscroll_resets", ["transcript_pk", "depth"], sqlite_where=ON_PATH)


def downgrade() -> None:
    for table in ("resets", "branches", "messages", "transcripts", "sessions", "agents"):
        op.drop_table(f"backscroll_{table}")
