"""Which sessions claim sessions of other agents as their parents, for stores in which each agent has a file.

Revision: 0003, after: 0002
"""

import sqlalchemy as sa

from alembic import op

revision = "0003_backscroll"
down_revision = "0002_backscroll"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "backscroll_kin",
        sa.Column("parent_key", sa.String, nullable=False),
        sa.Column("child_key", sa.String, nullable=False),
        sa.Column("parent_agent", sa.String),
        sa.Column("child_agent", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("parent_key", "child_key", name="pk_backscroll_kin"),
    )
    for column in ("child_key", "parent_agent"):
        op.create_index(f"ix_backscroll_kin_{column}", "backscroll_kin", [column])


def downgrade() -> None:
    op.drop_table("backscroll_kin")
