"""The full-text index. What is stored already stays pending: noted as one number, in the same time at any size.

Revision: 0002_backscroll, after: 0001_backscroll
"""

import sqlalchemy as sa

from alembic import op

revision = "0002_backscroll"
down_revision = "0001_backscroll"
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


# The net under the event hooks, for whoever writes without them: plain SQL, another tool, a database cascade. The hooks
# count every change they have seen in `edits`; a change that was not counted leaves its transcript pending. Index rows
# are always removed by the text that was indexed, which only the trigger still has.
PENDING = """INSERT INTO backscroll_pending (transcript_pk) VALUES (NEW.transcript_pk)
    ON CONFLICT (transcript_pk) DO UPDATE SET done_to = '', failure = NULL;"""
REMOVED = """INSERT INTO backscroll_message_index(backscroll_message_index, rowid, body, scope)
    SELECT 'delete', OLD.id, coalesce(OLD.search_text, OLD.text), 's' || s.id || ' a' || s.agent_pk
    FROM backscroll_transcripts AS t JOIN backscroll_sessions AS s ON s.id = t.session_pk
    WHERE t.id = OLD.transcript_pk;"""
TRIGGERS = {
    "backscroll_message_added": f"""AFTER INSERT ON backscroll_messages WHEN NEW.indexed IS NULL BEGIN
        {PENDING} END""",
    "backscroll_message_changed": f"""AFTER UPDATE OF text, search_text, role, active ON backscroll_messages
        WHEN NEW.edits = OLD.edits BEGIN
        {PENDING} END""",
    "backscroll_message_rewritten": f"""AFTER UPDATE OF text, search_text ON backscroll_messages
        WHEN NEW.edits = OLD.edits AND OLD.indexed = 1 AND NEW.indexed = 1 BEGIN
        {REMOVED} UPDATE backscroll_messages SET indexed = NULL WHERE id = OLD.id; END""",
    "backscroll_message_removed": f"""AFTER DELETE ON backscroll_messages WHEN OLD.indexed = 1 BEGIN
        {REMOVED} END""",
    # Children first and by name: a cascade would come when the session is gone whose tokens the index rows hold, and
    # a connection without foreign keys has none.
    "backscroll_transcript_removed": """BEFORE DELETE ON backscroll_transcripts BEGIN
        DELETE FROM backscroll_pending WHERE transcript_pk = OLD.id;
        DELETE FROM backscroll_branches WHERE transcript_pk = OLD.id;
        DELETE FROM backscroll_resets WHERE transcript_pk = OLD.id;
        DELETE FROM backscroll_messages WHERE transcript_pk = OLD.id; END""",
    "backscroll_session_removed": """BEFORE DELETE ON backscroll_sessions BEGIN
        DELETE FROM backscroll_transcripts WHERE session_pk = OLD.id; END""",
}


def upgrade() -> None:
    # Plain ADD COLUMN, not a batch: it changes the schema alone and copies no row.
    op.add_column("backscroll_messages", sa.Column("indexed", sa.Boolean))
    op.add_column("backscroll_messages", sa.Column("edits", sa.Integer, nullable=False, server_default=sa.text("0")))
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
    op.execute("INSERT INTO backscroll_message_index(backscroll_message_index, rank) VALUES ('automerge', 0)")
    for name, body in TRIGGERS.items():
        op.execute(f"CREATE TRIGGER {name} {body}")


def downgrade() -> None:
    for name in TRIGGERS:
        op.execute(f"DROP TRIGGER {name}")
    # Through itself: the tables that FTS5 keeps for it cannot be dropped alone.
    op.execute("DROP TABLE backscroll_message_index")
    op.execute("DROP VIEW backscroll_indexed_messages")
    op.drop_table("backscroll_index_state")
    op.drop_table("backscroll_pending")
    for column in ("search_text", "edits", "indexed"):
        op.drop_column("backscroll_messages", column)
