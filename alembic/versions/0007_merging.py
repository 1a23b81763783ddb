"""The index is merged four pieces at a time: a scope is looked up in fewer pieces, which also take less room.

Revision: 0007_backscroll, after: 0006_backscroll
"""

from alembic import op

revision = "0007_backscroll"
down_revision = "0006_backscroll"
branch_labels = None
depends_on = None

MERGE_AT = "INSERT INTO backscroll_message_index(backscroll_message_index, rank) VALUES ('usermerge', {})"


def upgrade() -> None:
    op.execute(MERGE_AT.format(4))


def downgrade() -> None:
    op.execute(MERGE_AT.format(5))
