"""What a store's schema must hold for the index to stay right: the view, the index, the triggers, the tables' indexes.

The migrations made them, and name them for themselves; here they stand as the newest revision leaves them, so that
what is lost can be found and made again.
"""

from collections.abc import Iterator

import sqlalchemy as sa

from backscroll.infrastructure import fts, times
from backscroll.infrastructure.bodies import body_of
from backscroll.infrastructure.frequencies import COUNTED, IS_OLD
from backscroll.infrastructure.rows import Row

_VIEW = f"""CREATE VIEW {fts.VIEW} AS
    SELECT m.id AS id, {body_of("m")} AS body, 's' || s.id || ' a' || s.agent_pk AS scope
    FROM backscroll_messages AS m
    JOIN backscroll_transcripts AS t ON t.id = m.transcript_pk
    JOIN backscroll_sessions AS s ON s.id = t.session_pk
    WHERE m.indexed = 1"""
_PENDING = """INSERT INTO backscroll_pending (transcript_pk) VALUES (NEW.transcript_pk)
    ON CONFLICT (transcript_pk) DO UPDATE SET done_to = '', failure = NULL;"""
_REMOVED = f"""INSERT INTO {fts.INDEX}({fts.INDEX}, rowid, body, scope)
    SELECT 'delete', OLD.id, {body_of("OLD")}, 's' || s.id || ' a' || s.agent_pk
    FROM backscroll_transcripts AS t JOIN backscroll_sessions AS s ON s.id = t.session_pk
    WHERE t.id = OLD.transcript_pk;"""
_TRIGGERS = {
    "backscroll_message_added": f"""AFTER INSERT ON backscroll_messages WHEN NEW.indexed IS NULL BEGIN
        {_PENDING} END""",
    "backscroll_message_changed": f"""AFTER UPDATE OF text, search_text, role, active ON backscroll_messages
        WHEN NEW.edits = OLD.edits BEGIN
        {_PENDING} END""",
    "backscroll_message_rewritten": f"""AFTER UPDATE OF text, search_text ON backscroll_messages
        WHEN NEW.edits = OLD.edits AND OLD.indexed = 1 AND NEW.indexed = 1 BEGIN
        {_REMOVED} UPDATE backscroll_messages SET indexed = NULL WHERE id = OLD.id; END""",
    "backscroll_message_removed": f"""AFTER DELETE ON backscroll_messages WHEN OLD.indexed = 1 BEGIN
        {_REMOVED} END""",
    "backscroll_message_unfiled": f"""AFTER DELETE ON backscroll_messages WHEN OLD.indexed = 1 AND {IS_OLD} BEGIN
        {COUNTED} END""",
    "backscroll_message_refiled": f"""AFTER UPDATE OF text, search_text, indexed ON backscroll_messages
        WHEN (OLD.indexed = 1 OR NEW.indexed = 1) AND {IS_OLD} BEGIN
        {COUNTED} END""",
    "backscroll_transcript_removed": """BEFORE DELETE ON backscroll_transcripts BEGIN
        DELETE FROM backscroll_pending WHERE transcript_pk = OLD.id;
        DELETE FROM backscroll_branches WHERE transcript_pk = OLD.id;
        DELETE FROM backscroll_resets WHERE transcript_pk = OLD.id;
        DELETE FROM backscroll_messages WHERE transcript_pk = OLD.id; END""",
    "backscroll_session_removed": """BEFORE DELETE ON backscroll_sessions BEGIN
        DELETE FROM backscroll_transcripts WHERE session_pk = OLD.id; END""",
    **times.TRIGGERS,
}
NET = {
    fts.VIEW: ("view", _VIEW),
    **{name: ("trigger", f"CREATE TRIGGER {name} {body}") for name, body in _TRIGGERS.items()},
}
"""The view and the triggers: name, kind, and the statement as SQLite keeps it."""


def lacking(connection: sa.Connection) -> Iterator[str]:
    """Names, with their kind, what is missing or not as this release makes it."""
    rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master")
    stored = {row.name: row.sql for row in rows}
    for name, (kind, statement) in NET.items():
        if stored.get(name) != statement:
            yield f"{kind} {name}"
    for name, statement in ((fts.INDEX, fts.CREATE), (fts.TERMS, fts.CREATE_TERMS)):
        if stored.get(name) != statement:
            yield f"table {name}"
    for index in _indexes():
        if index.name not in stored:
            yield f"index {index.name}"


def restore(connection: sa.Connection) -> None:
    """Makes what is lacking, but not the full-text index."""
    lost = set(lacking(connection))
    for name, (kind, statement) in NET.items():
        if f"{kind} {name}" in lost:
            connection.exec_driver_sql(f"DROP {kind} IF EXISTS {name}")
            connection.exec_driver_sql(statement)
    if f"table {fts.TERMS}" in lost:
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {fts.TERMS}")
        connection.exec_driver_sql(fts.CREATE_TERMS)
    for index in _indexes():
        if f"index {index.name}" in lost:
            index.create(connection)


def _indexes() -> list[sa.Index]:
    indexes = [index for table in Row.metadata.sorted_tables for index in table.indexes]
    return sorted(indexes, key=lambda index: str(index.name))
