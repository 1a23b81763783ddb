"""Parts packed as lists instead of objects, and an index merged less often. What is stored stays as it is.

Revision: 0004_backscroll, after: 0003_backscroll
"""

import json

import sqlalchemy as sa

from alembic import op

revision = "0004_backscroll"
down_revision = "0003_backscroll"
branch_labels = None
depends_on = None

KINDS = {
    "a": ("attachment", "media_type", "uri", "name"),
    "c": ("tool_call", "name", "arguments", "call_id"),
    "r": ("tool_result", "text", "call_id", "name", "is_error"),
    "t": ("reasoning", "text"),
}
SOME = 1_000
READ = "SELECT id, parts FROM backscroll_messages WHERE id > ? AND parts IS NOT NULL ORDER BY id LIMIT ?"
MERGE_AT = "INSERT INTO backscroll_message_index(backscroll_message_index, rank) VALUES ('usermerge', {})"
WRITE = "UPDATE backscroll_messages SET parts = ? WHERE id = ?"


def upgrade() -> None:
    # By this column alone a store is told from one whose readers know objects only.
    op.add_column(
        "backscroll_index_state", sa.Column("parts_form", sa.Integer, nullable=False, server_default=sa.text("2"))
    )
    op.execute(MERGE_AT.format(8))


def downgrade() -> None:
    connection = op.get_bind()
    last = 0
    while rows := connection.exec_driver_sql(READ, (last, SOME)).all():
        changed = [(as_objects(parts), pk) for pk, parts in rows]
        connection.exec_driver_sql(WRITE, changed)
        last = rows[-1].id
    op.execute(MERGE_AT.format(4))
    op.drop_column("backscroll_index_state", "parts_form")


def as_objects(parts: str) -> str:
    layout = [as_object(*item) if isinstance(item, list) else item for item in json.loads(parts)]
    return json.dumps(layout, ensure_ascii=False, separators=(",", ":"))


def as_object(letter: str, *values: object) -> dict[str, object]:
    kind, *names = KINDS[letter]
    named = zip(names, values, strict=False)
    return {"type": kind} | {name: value for name, value in named if value is not None and value is not False}
