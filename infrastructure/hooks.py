"""Keeps the index in step with the messages: event hooks on the unit of work.

`IndexedSession` is the `orm.Session` of every unit of work. Before a flush the hooks decide for each new and changed
message whether it belongs into the index; after it, in the same transaction, they remove the old index rows and write
the new ones. Bulk statements fire no such events and are refused; the one bulk way in, `insert_messages`, runs the
same decision. Index rows of deleted messages are removed by a trigger, which sees a database cascade too; whatever
else goes round these hooks, triggers leave pending (see revision 0002).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import event, orm
from sqlalchemy.orm import attributes

from backscroll.domain.errors import InvalidRequest
from backscroll.domain.model import SPOKEN
from backscroll.infrastructure import fts
from backscroll.infrastructure.bodies import body, search_text
from backscroll.infrastructure.rows import MESSAGES, MessageRow, Row, SessionRow, TranscriptRow
from backscroll.infrastructure.statements import Statements

OWN_STATEMENT = {"backscroll_own_statement": True}
"""Execution options of the bulk statements that keep the index right themselves."""

_DECIDING = ("text", "role", "active", "search_text", "indexed")
_FIXED = ("agent", "agent_pk", "incognito")


class NewMessageRow(NamedTuple):
    """A message to be inserted: the columns that nobody else decides, in the forms that the database keeps."""

    id: int
    transcript_pk: int
    message_id: str
    parent_pk: int | None
    reset_pk: int | None
    depth: int
    shown: int
    role: str
    active: bool
    created_at: int
    text: str
    parts: str | None
    metadata: str | None


# Past SQLAlchemy's own INSERT, which takes longer over a row than SQLite does.
_COLUMNS = (*NewMessageRow._fields, "indexed", "search_text")
_MOVE_HEAD = "UPDATE backscroll_branches SET head_pk = ? WHERE id = ?"
_ROW = f"({', '.join('?' * len(_COLUMNS))})"
_INSERT = f"INSERT INTO {MESSAGES.name} ({', '.join(_COLUMNS)}) VALUES {_ROW}"
# Several to a statement, since SQLite takes long to begin and end one; few enough for a SQLite that allows a hundred
# variables.
_SOME = 6
_INSERT_SOME = f"{_INSERT}{f', {_ROW}' * (_SOME - 1)}"


@dataclass(slots=True)
class _Changes:
    removed: list[fts.IndexRow] = field(default_factory=list)
    added: list[MessageRow] = field(default_factory=list)


class IndexedSession(orm.Session):
    """A session whose flushes carry the index along."""


def insert_messages(statements: Statements, rows: Sequence[NewMessageRow], branch_pk: int, scope: str | None) -> None:
    """Stores messages at the end of a branch, and indexes them under scope tokens (None: they are kept out)."""
    stored: list[tuple[object, ...]] = []
    added: list[fts.IndexRow] = []
    for row in rows:
        indexed, substitute = wanted(row.role, row.active and scope is not None, row.text)
        stored.append((*row, indexed, substitute))
        if indexed and scope is not None:
            added.append((row.id, body(row.text, substitute), scope))
    whole = len(stored) - len(stored) % _SOME
    if whole:
        runs = [tuple(chain.from_iterable(stored[at : at + _SOME])) for at in range(0, whole, _SOME)]
        statements.run_many(_INSERT_SOME, runs)
    if rest := stored[whole:]:
        statements.run_many(_INSERT, rest)
    # Before the index is written: a statement that foreign keys may undo makes FTS5 put what it gathers on disk.
    statements.run(_MOVE_HEAD, (rows[-1].id, branch_pk))
    fts.insert(statements, added)


def wanted(role: str, indexable: bool, text: str) -> tuple[bool, str | None]:
    """Whether a message belongs into the index, and its `search_text` there."""
    if not indexable or role not in SPOKEN or not text:
        return False, None
    return True, search_text(text)


def scope_of(transcript: TranscriptRow) -> str:
    """The scope tokens of a transcript's messages."""
    return fts.scope_tokens(transcript.session_pk, transcript.session.agent_pk)


def _transcript(session: orm.Session, row: MessageRow) -> TranscriptRow:
    transcript = session.get(TranscriptRow, row.transcript_pk)
    if transcript is None:
        raise InvalidRequest(f"message {row.message_id!r} belongs to no stored transcript")
    return transcript


def _goes(session: orm.Session, transcript: TranscriptRow) -> bool:
    return transcript in session.deleted or transcript.session in session.deleted


def _changed(row: Row, name: str) -> bool:
    return attributes.get_history(row, name, orm.PassiveFlag.PASSIVE_NO_INITIALIZE).has_changes()


def _before(row: MessageRow, name: str) -> Any:
    history = attributes.get_history(row, name)
    return history.deleted[0] if history.deleted else getattr(row, name)


def _indexed_before(row: MessageRow, scope: str) -> fts.IndexRow | None:
    """The row that the index holds of this message by what the database holds now, before the flush."""
    if not _before(row, "indexed"):
        return None
    return row.id, body(_before(row, "text"), _before(row, "search_text")), scope


@event.listens_for(IndexedSession, "before_flush")
def _decide(session: IndexedSession, context: object, instances: object) -> None:
    # A new value at every flush: what an earlier, failed flush had planned is void.
    changes = session.info["index_changes"] = _Changes()
    for row in session.new:
        if isinstance(row, MessageRow):
            transcript = _transcript(session, row)
            if _goes(session, transcript):
                session.expunge(row)
                continue
            row.indexed, row.search_text = wanted(row.role, row.active and not transcript.session.incognito, row.text)
            changes.added.append(row)
    for row in session.dirty:
        if isinstance(row, MessageRow) and any(_changed(row, name) for name in _DECIDING):
            transcript = _transcript(session, row)
            if _goes(session, transcript):
                # Deleted as the database has it: its index row is removed by the text that was indexed.
                session.expire(row)
                continue
            before = _indexed_before(row, scope_of(transcript))
            row.indexed, row.search_text = wanted(row.role, row.active and not transcript.session.incognito, row.text)
            if before != ((row.id, body(row.text, row.search_text), scope_of(transcript)) if row.indexed else None):
                changes.removed += [before] if before else []
                changes.added.append(row)
            row.edits += 1
        elif isinstance(row, SessionRow) and any(_changed(row, name) for name in _FIXED):
            raise InvalidRequest("agent and incognito of a session never change: its index rows are made for them")


@event.listens_for(IndexedSession, "after_flush")
def _write(session: IndexedSession, context: object) -> None:
    changes: _Changes = session.info.pop("index_changes", _Changes())
    statements = Statements(session.connection())
    fts.delete(statements, changes.removed)
    fts.insert(
        statements,
        [
            (row.id, body(row.text, row.search_text), scope_of(_transcript(session, row)))
            for row in changes.added
            if row.indexed
        ],
    )


@event.listens_for(IndexedSession, "do_orm_execute")
def _refuse_bulk(state: orm.ORMExecuteState) -> None:
    if not (state.is_insert or state.is_update or state.is_delete) or state.execution_options.keys() & OWN_STATEMENT:
        return
    mapper = state.bind_mapper
    if mapper is not None and issubclass(mapper.class_, Row):
        raise InvalidRequest(
            f"bulk statements on {mapper.class_.__tablename__} would leave the index behind:"
            " use Backscroll.append_many, edit or delete_session"
        )
