"""The full-text index. What is stored already stays pending: noted as one number, in the same time at any size.

Revision: 0002, after: 0001
"""

import sqlalchemy as sa

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

VIEW = """CREATE VIEW backscroll_indexed_messages AS
    SELECT m.id AS id, coalesce(m.search_text, m.text) AS body, 's' || s.id || ' a' || s.agent_pk AS scope
    FROM backscroll_messages AS m
    JOIN backscroll_transcripts AS t ON t.id = m.transcript_pk
    JOIN backscroll_sessions AS s ON s.id = t.session_pk
    WHERE m.indexed = 1"""
INDEX = """CREATE VIRTUAL TABLE backscroll_message_index USING fts5(
    body, scope, content='backscroll_indexed_messages', content_rowid='id',
    tokenize="unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc Me'")"""


def upgrade() -> None:
    # Plain ADD COLUMN, not a batch: it changes the schema alone and copies no row.
    op.add_column("backscroll_messages", sa.Column("indexed", sa.Boolean, nullable=False, server_default=sa.text("0")))
    op.add_column("backscroll_messages", sa.Column("search_text", sa.String))
    op.create_table(
        "backscroll_pending",
        sa.Column("transcript_pk", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("done_to", sa.String, nullable=False, server_default=sa.text("''")),
        sa.Column("claimed_by", sa.String),
        sa.Column("claimed_until", sa.BigInteger),
        sa.Column("failure", sa.String),
        sa.PrimaryKeyConstraint("transcript_pk", name="pk_backscroll_pending"),
        sa.ForeignKeyConstraint(
            ["transcript_pk"],
            ["backscroll_transcripts.id"],
            name="fk_backscroll_pending_transcript_pk",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "backscroll_index_state",
        sa.Column("id", sa.Integer, autoincrement=False),
        sa.Column("legacy_pk", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_backscroll_index_state"),
    )
    op.execute(
        "INSERT INTO backscroll_index_state (id, legacy_pk)"
        " SELECT 1, coalesce((SELECT max(id) FROM backscroll_transcripts), 0)"
    )
    op.execute(VIEW)
    op.execute(INDEX)
    op.execute("INSERT INTO backscroll_message_index(backscroll_message_index, rank) VALUES ('rank', 'bm25(1.0, 0.0)')")


def downgrade() -> None:
    # Through itself: the tables that FTS5 keeps for it cannot be dropped alone.
    op.execute("DROP TABLE backscroll_message_index")
    op.execute("DROP VIEW backscroll_indexed_messages")
    op.drop_table("backscroll_index_state")
    op.drop_table("backscroll_pending")
    op.drop_column("backscroll_messages", "search_text")
    op.drop_column("backscroll_messages", "indexed")
