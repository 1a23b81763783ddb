"""Plain `sqlite3` as a driver: tables of the same shape, the same index, and the statements that each job needs."""

import json
import re
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from corpus import Conversation, Said
from systems.driver import Ask
from transcripts import Line, folders, lines_of

_SCHEMA = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, session_key TEXT NOT NULL UNIQUE, agent_id TEXT NOT NULL, spawned_by TEXT,
    incognito INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
CREATE INDEX sessions_updated ON sessions (updated_at);
CREATE INDEX sessions_spawned ON sessions (spawned_by) WHERE spawned_by IS NOT NULL;
CREATE TABLE transcripts (
    id INTEGER PRIMARY KEY, session_id TEXT NOT NULL UNIQUE, head INTEGER,
    session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE);
CREATE INDEX transcripts_session ON transcripts (session);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY, transcript INTEGER NOT NULL REFERENCES transcripts (id) ON DELETE CASCADE,
    message_id TEXT NOT NULL, parent INTEGER, depth INTEGER NOT NULL, active INTEGER NOT NULL, role TEXT NOT NULL,
    created_at INTEGER NOT NULL, text TEXT NOT NULL, parts TEXT, search_text TEXT, UNIQUE (transcript, message_id));
CREATE INDEX messages_path ON messages (transcript, depth) WHERE active = 1;
CREATE TABLE lines (
    id INTEGER PRIMARY KEY, transcript INTEGER NOT NULL REFERENCES transcripts (id) ON DELETE CASCADE,
    head INTEGER NOT NULL);
CREATE INDEX lines_transcript ON lines (transcript, head);
CREATE TABLE resets (
    id INTEGER PRIMARY KEY, transcript INTEGER NOT NULL REFERENCES transcripts (id) ON DELETE CASCADE,
    depth INTEGER NOT NULL, created_at INTEGER NOT NULL);
CREATE INDEX resets_depth ON resets (transcript, depth);
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
    WHERE found MATCH ? AND s.incognito = 0 {} ORDER BY {} LIMIT 10"""
_IN_TREE = """AND s.session_key IN (WITH RECURSIVE below (key) AS (VALUES (?) UNION
    SELECT c.session_key FROM below JOIN sessions AS c ON c.spawned_by = below.key) SELECT key FROM below)"""
_PLACE = """SELECT m.id, t.id, s.id, m.depth FROM sessions AS s JOIN transcripts AS t ON t.session = s.id
    JOIN messages AS m ON m.transcript = t.id AND m.message_id = ? WHERE s.session_key = ? AND m.active = 1"""
_BETWEEN = """SELECT t.id, m.depth,
        coalesce((SELECT max(depth) FROM resets WHERE transcript = t.id AND depth < m.depth), 0),
        coalesce((SELECT min(depth) FROM resets WHERE transcript = t.id AND depth >= m.depth), 1 << 62)
    FROM sessions AS s JOIN transcripts AS t ON t.session = s.id
    JOIN messages AS m ON m.transcript = t.id AND m.message_id = ? WHERE s.session_key = ? AND m.active = 1"""
_SINCE = """SELECT t.id, coalesce((SELECT max(depth) FROM resets WHERE transcript = t.id), 0)
    FROM sessions AS s JOIN transcripts AS t ON t.session = s.id WHERE s.session_key = ?"""
_READ = """SELECT message_id, role, text, parts, created_at FROM messages WHERE transcript = ? AND active = 1
    AND role <> 'tool' AND depth > ? AND depth <= ? ORDER BY depth {} LIMIT ?"""
_LINE = """WITH RECURSIVE line (id, parent, depth, active) AS (
    SELECT id, parent, depth, active FROM messages WHERE transcript = ? AND message_id = ?
    UNION ALL SELECT m.id, m.parent, m.depth, m.active FROM line JOIN messages AS m ON m.id = line.parent
    WHERE line.active = 0) SELECT id, depth, active FROM line"""
_BEHIND = "FROM messages WHERE transcript = ? AND active = 1 AND depth > ?"
_SPACELESS = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")


class PlainSqliteDriver:
    """What one would write by hand: tables of the same shape, the same index, and the statements that each job needs.

    Han, kana and Thai characters are set apart by spaces in what is indexed, and asked for as phrases.
    """

    name = "sqlite3"
    alike = True

    def __init__(self, file: Path, synchronous: str) -> None:
        self._db = sqlite3.connect(file, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(f"PRAGMA synchronous = {synchronous}")
        self._db.execute("PRAGMA foreign_keys = ON")
        if not self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
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

    def add_session(self, one: Conversation) -> None:
        self._add_session(one.session_key, one.agent_id, one.spawned_by, secrets.token_hex(11))

    def _add_session(self, key: str, agent_id: str, spawned_by: str | None, session_id: str) -> None:
        now = time.time_ns() // 1000
        with self._writing() as db:
            row = db.execute(
                "INSERT INTO sessions VALUES (NULL, ?, ?, ?, 0, ?, ?)", (key, agent_id, spawned_by, now, now)
            ).lastrowid
            db.execute("INSERT INTO transcripts VALUES (NULL, ?, NULL, ?)", (session_id, row))

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

    def import_folder(self, folder: Path) -> None:
        for sessions in folders(folder):
            registry = json.loads((sessions / "sessions.json").read_text("utf-8"))
            keys = {entry["sessionId"]: (key, entry.get("spawnedBy")) for key, entry in registry.items()}
            for file in sorted(sessions.glob("*.jsonl")):
                key, spawned_by = keys[file.stem]
                self._add_session(key, sessions.parent.name, spawned_by, file.stem)
                for batch in lines_of(file, 1_000):
                    self._append(key, [_imported(line) for line in batch])

    def search(self, ask: Ask) -> list[str]:
        phrases = [quoted or word for quoted, word in re.findall(r'"([^"]*)"|(\S+)', ask.words)]
        match = " ".join(f'"{_split(phrase)}"' for phrase in phrases) + "*" * ask.prefix
        scope, given = "", []
        if ask.session_key is not None:
            scope, given = "AND s.session_key = ?", [ask.session_key]
        elif ask.tree_of is not None:
            scope, given = _IN_TREE, [ask.tree_of]
        elif (agent := ask.agent or ask.own_agent) is not None:
            scope, given = "AND s.agent_id = ?", [agent]
        order = "found.rowid DESC" if ask.newest else "rank"
        return [row[0] for row in self._db.execute(_FIND.format(scope, order), [match, *given]).fetchall()]

    def around(self, key: str, message_id: str, limit: int) -> list[str]:
        transcript, depth, low, high = self._db.execute(_BETWEEN, (message_id, key)).fetchone()
        newer = self._read(transcript, depth, high, "ASC", limit - 1)
        older = self._read(transcript, low, depth, "DESC", limit)
        taken = max(limit - limit // 2, limit - len(newer))
        shown = older[:taken][::-1] + newer[: limit - min(taken, len(older))]
        return [one["message_id"] for one in shown]

    def newest(self, key: str, limit: int) -> list[str]:
        transcript, low = self._db.execute(_SINCE, (key,)).fetchone()
        return [one["message_id"] for one in self._read(transcript, low, 1 << 62, "DESC", limit)[::-1]]

    def _read(self, transcript: int, low: int, high: int, order: str, limit: int) -> list[dict[str, Any]]:
        names = ("message_id", "role", "text", "parts", "created_at")
        rows = self._db.execute(_READ.format(order), (transcript, low, high, limit))
        read = [dict(zip(names, row, strict=True)) for row in rows]
        for one in read:
            one["parts"] = json.loads(one["parts"]) if one["parts"] else None
        return read

    def reset(self, key: str) -> None:
        with self._writing() as db:
            transcript, _, _, depth = db.execute(_HEAD, (key,)).fetchone()
            db.execute("INSERT INTO resets VALUES (NULL, ?, ?, ?)", (transcript, depth, time.time_ns() // 1000))

    def rewind(self, key: str, message_id: str) -> None:
        with self._writing() as db:
            head, transcript, session, depth = db.execute(_PLACE, (message_id, key)).fetchone()
            db.execute(
                "INSERT INTO lines SELECT NULL, id, head FROM transcripts WHERE id = ? AND head <> ?",
                (transcript, head),
            )
            self._leave(transcript, depth)
            self._now_at(transcript, session, head)

    def lines(self, key: str) -> list[str]:
        transcript, _, head, _ = self._db.execute(_HEAD, (key,)).fetchone()
        heads = self._db.execute("SELECT head FROM lines WHERE transcript = ? ORDER BY id", (transcript,)).fetchall()
        name = "SELECT message_id FROM messages WHERE id = ?"
        return [self._db.execute(name, (one,)).fetchone()[0] for one in (head, *(row[0] for row in heads))]

    def switch(self, key: str, line: str) -> None:
        with self._writing() as db:
            transcript, session, left, _ = db.execute(_HEAD, (key,)).fetchone()
            *joining, (_, depth, _) = db.execute(_LINE, (transcript, line)).fetchall()
            self._leave(transcript, depth)
            ids = [(row[0],) for row in joining]
            db.executemany("UPDATE messages SET active = 1 WHERE id = ?", ids)
            db.executemany("INSERT INTO found (rowid, text) SELECT id, text FROM spoken WHERE id = ?", ids)
            db.execute("UPDATE lines SET head = ? WHERE transcript = ? AND head = ?", (left, transcript, ids[0][0]))
            self._now_at(transcript, session, ids[0][0])

    def _leave(self, transcript: int, depth: int) -> None:
        """Takes what lies behind a depth off the active path."""
        self._db.execute(
            "INSERT INTO found (found, rowid, text) SELECT 'delete', id, coalesce(search_text, text)"
            f" {_BEHIND} AND role IN ('user', 'assistant') AND text <> ''",
            (transcript, depth),
        )
        self._db.execute(f"UPDATE messages SET active = 0 WHERE id IN (SELECT id {_BEHIND})", (transcript, depth))

    def _now_at(self, transcript: int, session: int, head: int) -> None:
        self._db.execute("UPDATE transcripts SET head = ? WHERE id = ?", (head, transcript))
        self._db.execute("UPDATE sessions SET updated_at = ? WHERE id = ?", (time.time_ns() // 1000, session))

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
    return _compact(parts) if parts else None


def _split(text: str) -> str:
    return _SPACELESS.sub(r" \g<0> ", text)


def _imported(line: Line) -> tuple[str, str, int, str, str | None]:
    """A line of a transcript as `_append` takes it."""
    said, blocks = line["message"], line["message"]["content"]
    at = int(datetime.fromisoformat(line["timestamp"]).timestamp() * 1e6)
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    if said["role"] == "toolResult":
        parts = [{"type": "tool_result", "text": text, "call_id": said["toolCallId"], "name": said["toolName"]}]
        return line["id"], "tool", at, "", _compact(parts)
    calls = [
        {"type": "tool_call", "name": block["name"], "arguments": _compact(block["arguments"]), "call_id": block["id"]}
        for block in blocks
        if block["type"] == "toolCall"
    ]
    return line["id"], said["role"], at, text, _compact(calls) if calls else None


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
