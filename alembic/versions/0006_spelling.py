"""Letters that FTS5 does not fold are spelled out by the view, so that texts with some of them are stored once.

Also: changes of old index rows are counted, so that how many of them hold a word can be remembered; and the index is
merged more often again, since a scope is looked up in each of its pieces. What is stored already stays as it is.

Revision: 0006_backscroll, after: 0005_backscroll
"""

from collections.abc import Callable
from functools import reduce

import sqlalchemy as sa

from alembic import op

revision = "0006_backscroll"
down_revision = "0005_backscroll"
branch_labels = None
depends_on = None

SPELLINGS = {
    0xAA: "a", 0xBA: "o", 0xB9: "1", 0xB2: "2", 0xB3: "3", 0xDF: "ss", 0x1E9E: "ss", 0xC6: "ae", 0xE6: "ae", 0xD0: "d",
    0xF0: "d", 0xD8: "o", 0xF8: "o", 0xDE: "th", 0xFE: "th", 0x110: "d", 0x111: "d", 0x126: "h", 0x127: "h", 0x131: "i",
    0x141: "l", 0x142: "l", 0x14A: "ng", 0x14B: "ng", 0x152: "oe", 0x153: "oe", 0x166: "t", 0x167: "t",
    0x622: "\u0627", 0x623: "\u0627", 0x624: "\u0648", 0x625: "\u0627", 0x626: "\u064a", 0xAD: "", 0xFE0F: "",
}  # fmt: skip
VIEW = """CREATE VIEW backscroll_indexed_messages AS
    SELECT m.id AS id, {body} AS body, 's' || s.id || ' a' || s.agent_pk AS scope
    FROM backscroll_messages AS m
    JOIN backscroll_transcripts AS t ON t.id = m.transcript_pk
    JOIN backscroll_sessions AS s ON s.id = t.session_pk
    WHERE m.indexed = 1"""
REMOVED = """INSERT INTO backscroll_message_index(backscroll_message_index, rowid, body, scope)
    SELECT 'delete', OLD.id, {body}, 's' || s.id || ' a' || s.agent_pk
    FROM backscroll_transcripts AS t JOIN backscroll_sessions AS s ON s.id = t.session_pk
    WHERE t.id = OLD.transcript_pk;"""
READING = {
    "backscroll_message_rewritten": f"""AFTER UPDATE OF text, search_text ON backscroll_messages
        WHEN NEW.edits = OLD.edits AND OLD.indexed = 1 AND NEW.indexed = 1 BEGIN
        {REMOVED} UPDATE backscroll_messages SET indexed = NULL WHERE id = OLD.id; END""",
    "backscroll_message_removed": f"""AFTER DELETE ON backscroll_messages WHEN OLD.indexed = 1 BEGIN
        {REMOVED} END""",
}
COUNTED = "UPDATE backscroll_index_state SET rewrites = rewrites + 1;"
OLD = "OLD.id <= (SELECT seq FROM sqlite_sequence WHERE name = 'backscroll_messages') - 16384"
COUNTING = {
    "backscroll_message_refiled": f"""AFTER UPDATE OF text, search_text, indexed ON backscroll_messages
        WHEN (OLD.indexed = 1 OR NEW.indexed = 1) AND {OLD} BEGIN
        {COUNTED} END""",
    "backscroll_message_unfiled": f"""AFTER DELETE ON backscroll_messages WHEN OLD.indexed = 1 AND {OLD} BEGIN
        {COUNTED} END""",
}
PENDING = """INSERT INTO backscroll_pending (transcript_pk)
    SELECT DISTINCT transcript_pk FROM backscroll_messages WHERE search_text = char(31)
    ON CONFLICT (transcript_pk) DO UPDATE SET done_to = '', failure = NULL"""
MERGE_AT = "INSERT INTO backscroll_message_index(backscroll_message_index, rank) VALUES ('usermerge', {})"
COPY = "UPDATE backscroll_messages AS m SET search_text = {body}, edits = edits + 1 WHERE search_text = char(31)"


def upgrade() -> None:
    # By this column a store is also told from one whose readers do not know what is spelled out.
    op.add_column(
        "backscroll_index_state", sa.Column("rewrites", sa.Integer, nullable=False, server_default=sa.text("0"))
    )
    for name, trigger in COUNTING.items():
        op.execute(f"CREATE TRIGGER {name} {trigger}")
    read_as(spelled)
    op.execute(MERGE_AT.format(5))


def downgrade() -> None:
    for name in COUNTING:
        op.execute(f"DROP TRIGGER {name}")
    # What is spelled out is copied as it is, so that the index holds the very same, and is waiting to be folded.
    op.execute(PENDING)
    op.execute(COPY.format(body=spelled("m")))
    read_as(copied)
    op.execute(MERGE_AT.format(8))
    op.drop_column("backscroll_index_state", "rewrites")


def read_as(body: Callable[[str], str]) -> None:
    op.execute("DROP VIEW backscroll_indexed_messages")
    op.execute(VIEW.format(body=body("m")))
    for name, trigger in READING.items():
        op.execute(f"DROP TRIGGER {name}")
        op.execute(f"CREATE TRIGGER {name} {trigger.format(body=body('OLD'))}")


def copied(row: str) -> str:
    return f"coalesce({row}.search_text, {row}.text)"


def spelled(row: str) -> str:
    # In two steps: SQLite's parser has room for so many calls within each other only.
    letters = list(SPELLINGS.items())
    first, second = replaced(f"{row}.text", letters[:18]), replaced("half", letters[18:])
    text = f"(SELECT {second} FROM (SELECT {first} AS half))"
    return f"CASE {row}.search_text WHEN char(31) THEN {text} ELSE {copied(row)} END"


def replaced(text: str, letters: list[tuple[int, str]]) -> str:
    return reduce(lambda one, pair: f"replace({one}, char({pair[0]}), '{pair[1]}')", letters, text)
