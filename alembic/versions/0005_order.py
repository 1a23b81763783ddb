"""A view of the index's own terms, for words that begin alike, and how new the messages are in each block of keys.

What is stored already is dated by maintenance, so that this takes the same time at any size.

Revision: 0005_backscroll, after: 0004_backscroll
"""

import sqlalchemy as sa

from alembic import op

revision = "0005_backscroll"
down_revision = "0004_backscroll"
branch_labels = None
depends_on = None

TERMS = "CREATE VIRTUAL TABLE backscroll_message_index_terms USING fts5vocab(backscroll_message_index, instance)"
# The last block is open: of any time, so that what is stored in order changes nothing here. It is dated when the next
# one begins. Keys before the first block are of any time too, and get no block of their own.
DATED = """INSERT INTO backscroll_times (block, newest) SELECT NEW.id >> 10, 1 << 60
            WHERE NEW.id >> 10 >= coalesce((SELECT min(block) FROM backscroll_times), 0)
            ON CONFLICT (block) DO UPDATE SET newest = max(newest, NEW.created_at + 1);
        UPDATE backscroll_times SET newest = 1 + coalesce((SELECT max(created_at) FROM backscroll_messages
                WHERE id BETWEEN block << 10 AND (block << 10) + 1023), 0)
            WHERE newest = 1 << 60 AND block = (SELECT max(block) FROM backscroll_times WHERE block < NEW.id >> 10);"""
TRIGGERS = {
    "backscroll_message_dated": f"""AFTER INSERT ON backscroll_messages WHEN NEW.created_at >=
        coalesce((SELECT newest FROM backscroll_times WHERE block = NEW.id >> 10), NEW.created_at) BEGIN
        {DATED} END""",
    "backscroll_message_redated": f"""AFTER UPDATE OF id, created_at ON backscroll_messages BEGIN
        {DATED} END""",
}
OPEN = """INSERT INTO backscroll_times (block, newest)
    SELECT id >> 10, 1 << 60 FROM backscroll_messages ORDER BY id DESC LIMIT 1"""


def upgrade() -> None:
    op.execute(TERMS)
    op.create_table(
        "backscroll_times",
        sa.Column("block", sa.Integer, autoincrement=False),
        sa.Column("newest", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("block", name="pk_backscroll_times"),
    )
    op.execute(OPEN)
    for name, body in TRIGGERS.items():
        op.execute(f"CREATE TRIGGER {name} {body}")


def downgrade() -> None:
    for name in TRIGGERS:
        op.execute(f"DROP TRIGGER {name}")
    op.drop_table("backscroll_times")
    op.execute("DROP TABLE backscroll_message_index_terms")
