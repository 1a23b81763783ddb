"""A view of the index's own terms, which holds nothing itself: for the words that begin alike.

Revision: 0004, after: 0003
"""

from alembic import op

revision = "0004_backscroll"
down_revision = "0003_backscroll"
branch_labels = None
depends_on = None

TERMS = "CREATE VIRTUAL TABLE backscroll_message_index_terms USING fts5vocab(backscroll_message_index, instance)"


def upgrade() -> None:
    op.execute(TERMS)


def downgrade() -> None:
    op.execute("DROP TABLE backscroll_message_index_terms")
