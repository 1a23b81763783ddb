"""The systems that are compared: each does the same jobs its own way."""

import json
import re
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from corpus import Said

from backscroll import Backscroll, NewMessage, Requester, Settings


@dataclass(frozen=True, slots=True)
class Ask:
    """A search for the first page of ten: words, a quoted phrase, or words of which the last is only begun."""

    words: str
    session_key: str | None = None
    prefix: bool = False
    newest: bool = False


class Driver(Protocol):
    """A system under test, on one file of its own. What is found or read comes back as message ids."""

    name: str

    def __init__(self, file: Path, synchronous: str) -> None: ...

    def add_session(self, key: str, agent_id: str) -> None: ...

    def append_many(self, key: str, messages: Sequence[Said]) -> None:
        """Stores messages behind the last one, in one transaction."""
        ...

    def append(self, key: str, role: str, text: str) -> None:
        """Stores one message, in a transaction of its own."""
        ...

    def search(self, ask: Ask) -> list[str]:
        """The ten best (or newest) messages with their session and an excerpt, best first."""
        ...

    def around(self, key: str, message_id: str, limit: int) -> list[str]:
        """The messages around one, tool messages left out, oldest first."""
        ...

    def newest(self, key: str, limit: int) -> list[str]:
        """The newest messages, tool messages left out, oldest first."""
        ...

    def rewind(self, key: str, message_id: str) -> None:
        """Makes a message the head again; what followed is kept, and no longer found."""
        ...

    def delete(self, key: str) -> None: ...

    def close(self) -> None: ...


class BackscrollDriver:
    """Backscroll through its facade."""

    name = "Backscroll"

    def __init__(self, file: Path, synchronous: str) -> None:
        self._scroll = Backscroll.open(Settings(database_url=f"sqlite:///{file}", synchronous=synchronous))
        self._requester = Requester("agent:main:bench:reader")

    def add_session(self, key: str, agent_id: str) -> None:
        self._scroll.ensure_session(key, agent_id=agent_id)

    def append_many(self, key: str, messages: Sequence[Said]) -> None:
        self._scroll.append_many(
            key, [NewMessage(said.role, _content(said), said.message_id, None, said.created_at) for said in messages]
        )

    def append(self, key: str, role: str, text: str) -> None:
        self._scroll.append(key, role, text)

    def search(self, ask: Ask) -> list[str]:
        page = self._scroll.search(
            ask.words,
            requester=self._requester,
            session_key=ask.session_key,
            match="prefix" if ask.prefix else "all",
            order="newest" if ask.newest else "relevance",
        )
        return [hit.message_id for hit in page.hits]

    def around(self, key: str, message_id: str, limit: int) -> list[str]:
        page = self._scroll.history(key, requester=self._requester, message_id=message_id, limit=limit)
        return [one.message_id for one in page.messages]

    def newest(self, key: str, limit: int) -> list[str]:
        return [one.message_id for one in self._scroll.history(key, requester=self._requester, limit=limit).messages]

    def rewind(self, key: str, message_id: str) -> None:
        self._scroll.rewind(key, message_id)

    def delete(self, key: str) -> None:
        self._scroll.delete_session(key)

    def close(self) -> None:
        self._scroll.close()


def _content(said: Said) -> str | list[dict[str, Any]]:
    if said.output:
        return [said.output]
    if said.call:
        return [{"type": "text", "text": said.text}, said.call] if said.text else [said.call]
    return said.text


_SCHEMA = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, session_key TEXT NOT NULL UNIQUE, agent_id TEXT NOT NULL,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
CREATE INDEX sessions_updated ON sessions (updated_at);
CREATE TABLE transcripts (
    id INTEGER PRIMARY KEY, session_id TEXT NOT NULL UNIQUE, head INTEGER,
    session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE);
CREATE INDEX transcripts_session ON transcripts (session);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY, transcript INTEGER NOT NULL REFERENCES transcripts (id) ON DELETE CASCADE,
    message_id TEXT NOT NULL, parent INTEGER, depth INTEGER NOT NULL, active INTEGER NOT NULL, role TEXT NOT NULL,
    created_at INTEGER NOT NULL, text TEXT NOT NULL, parts TEXT, search_text TEXT, UNIQUE (transcript, message_id));
CREATE INDEX messages_path ON messages (transcript, depth) WHERE active = 1;
CREATE VIEW spoken AS SELECT id, coalesce(search_text, text) AS text FROM messages
    WHERE active = 1 AND role IN ('user', 'assistant') AND text <> '';
CREATE VIRTUAL TABLE found USING fts5 (
    text, content = 'spoken', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2');
"""
_HEAD = """SELECT t.id, s.id, m.id, coalesce(m.depth, 0) FROM sessions AS s JOIN transcripts AS t ON t.session = s.id
    LEFT JOIN messages AS m ON m.id = t.head WHERE s.session_key = ?"""
_FIND = """SELECT m.message_id, s.session_key, t.session_id, m.role, m.created_at, rank,
        snippet(found, 0, '[', ']', '…', 40)
    FROM found JOIN messages AS m ON m.id = found.rowid
    JOIN transcripts AS t ON t.id = m.transcript JOIN sessions AS s ON s.id = t.session
    WHERE found MATCH ? {} ORDER BY {} LIMIT 10"""
_PLACE = """SELECT m.id, t.id, s.id, m.depth FROM sessions AS s JOIN transcripts AS t ON t.session = s.id
    JOIN messages AS m ON m.transcript = t.id AND m.message_id = ? WHERE s.session_key = ? AND m.active = 1"""
_READ = """SELECT message_id, role, text, parts, created_at FROM messages WHERE transcript = ? AND active = 1
    AND role <> 'tool' AND depth {} ? ORDER BY depth {} LIMIT ?"""
_BEHIND = "FROM messages WHERE transcript = ? AND active = 1 AND depth > ?"
_SPACELESS = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")


class PlainSqliteDriver:
    """What one would write by hand: tables of the same shape, the same index, and the statements that each job needs.

    Han, kana and Thai characters are set apart by spaces in what is indexed, and asked for as phrases.
    """

    name = "sqlite3"

    def __init__(self, file: Path, synchronous: str) -> None:
        self._db = sqlite3.connect(file, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(f"PRAGMA synchronous = {synchronous}")
        self._db.execute("PRAGMA foreign_keys = ON")
        self._db.executescript(_SCHEMA)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def add_session(self, key: str, agent_id: str) -> None:
        now = time.time_ns() // 1000
        with self._writing() as db:
            row = db.execute("INSERT INTO sessions VALUES (NULL, ?, ?, ?, ?)", (key, agent_id, now, now)).lastrowid
            db.execute("INSERT INTO transcripts VALUES (NULL, ?, NULL, ?)", (secrets.token_hex(11), row))

    def append_many(self, key: str, messages: Sequence[Said]) -> None:
        self._append(
            key,
            [
                (said.message_id, said.role, int(said.created_at.timestamp() * 1e6), said.text, _parts(said))
                for said in messages
            ],
        )

    def append(self, key: str, role: str, text: str) -> None:
        self._append(key, [(secrets.token_hex(11), role, time.time_ns() // 1000, text, None)])

    def _append(self, key: str, messages: list[tuple[str, str, int, str, str | None]]) -> None:
        with self._writing() as db:
            transcript, session, head, depth = db.execute(_HEAD, (key,)).fetchone()
            (last,) = db.execute("SELECT max(id) FROM messages").fetchone()
            rows, indexed = [], []
            for pk, (message_id, role, at, text, parts) in enumerate(messages, (last or 0) + 1):
                depth += 1
                spoken = role in ("user", "assistant") and text
                split = _split(text) if spoken and not text.isascii() and _SPACELESS.search(text) else None
                rows.append((pk, transcript, message_id, head, depth, 1, role, at, text, parts, split))
                if spoken:
                    indexed.append((pk, split or text))
                head = pk
            db.executemany("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            db.executemany("INSERT INTO found (rowid, text) VALUES (?, ?)", indexed)
            db.execute("UPDATE transcripts SET head = ? WHERE id = ?", (head, transcript))
            db.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", (messages[-1][2], session))

    def search(self, ask: Ask) -> list[str]:
        phrases = [quoted or word for quoted, word in re.findall(r'"([^"]*)"|(\S+)', ask.words)]
        match = " ".join(f'"{_split(phrase)}"' for phrase in phrases) + "*" * ask.prefix
        scope, given = ("AND s.session_key = ?", [ask.session_key]) if ask.session_key else ("", [])
        order = "found.rowid DESC" if ask.newest else "rank"
        return [row[0] for row in self._db.execute(_FIND.format(scope, order), [match, *given]).fetchall()]

    def around(self, key: str, message_id: str, limit: int) -> list[str]:
        _, transcript, _, depth = self._db.execute(_PLACE, (message_id, key)).fetchone()
        newer = self._read(transcript, ">", depth, "ASC", limit - 1)
        older = self._read(transcript, "<=", depth, "DESC", limit)
        taken = max(limit - limit // 2, limit - len(newer))
        shown = older[:taken][::-1] + newer[: limit - min(taken, len(older))]
        return [one["message_id"] for one in shown]

    def newest(self, key: str, limit: int) -> list[str]:
        transcript, _, _, depth = self._db.execute(_HEAD, (key,)).fetchone()
        return [one["message_id"] for one in self._read(transcript, "<=", depth, "DESC", limit)[::-1]]

    def _read(self, transcript: int, side: str, depth: int, order: str, limit: int) -> list[dict[str, Any]]:
        names = ("message_id", "role", "text", "parts", "created_at")
        rows = self._db.execute(_READ.format(side, order), (transcript, depth, limit))
        read = [dict(zip(names, row, strict=True)) for row in rows]
        for one in read:
            one["parts"] = json.loads(one["parts"]) if one["parts"] else None
        return read

    def rewind(self, key: str, message_id: str) -> None:
        with self._writing() as db:
            head, transcript, session, depth = db.execute(_PLACE, (message_id, key)).fetchone()
            db.execute(
                "INSERT INTO found (found, rowid, text) SELECT 'delete', id, coalesce(search_text, text)"
                f" {_BEHIND} AND role IN ('user', 'assistant') AND text <> ''",
                (transcript, depth),
            )
            db.execute(f"UPDATE messages SET active = 0 WHERE id IN (SELECT id {_BEHIND})", (transcript, depth))
            db.execute("UPDATE transcripts SET head = ? WHERE id = ?", (head, transcript))
            db.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", (time.time_ns() // 1000, session))

    def delete(self, key: str) -> None:
        with self._writing() as db:
            db.execute(
                "INSERT INTO found (found, rowid, text) SELECT 'delete', v.id, v.text FROM sessions AS s"
                " JOIN transcripts AS t ON t.session = s.id JOIN messages AS m ON m.transcript = t.id"
                " JOIN spoken AS v ON v.id = m.id WHERE s.session_key = ?",
                (key,),
            )
            db.execute("DELETE FROM sessions WHERE session_key = ?", (key,))

    def close(self) -> None:
        self._db.close()


def _parts(said: Said) -> str | None:
    parts = [part for part in (said.call, said.output) if part]
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":")) if parts else None


def _split(text: str) -> str:
    return _SPACELESS.sub(r" \g<0> ", text)


DRIVERS: tuple[type[Driver], ...] = (BackscrollDriver, PlainSqliteDriver)
"""The first is measured against each other one; aims are ratios to the last, plain SQLite."""
