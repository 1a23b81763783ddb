"""The session store of hermes-agent (`hermes_state.SessionDB`) as a driver.

It keeps its own copy of all text in two FTS5 tables, tools' output and calls included, and has no visibility and no
redaction. What it does differently where a job is comparable:

- A session's messages are stored in one transaction by `replace_messages`, which replaces: only an empty session can be
  filled. There is no transaction that adds several.
- An answer to a search also holds the message before and behind each hit. Words of less than three characters in
  scripts without spaces are looked for by LIKE. The session's source stands for the agent.
- `get_messages_around` gives as many on both sides, tool messages among them; a page of the newest skips all others.
- Reads are by its own row ids, which a host keeps: looked up once for each session, untimed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpus import Conversation, Said
from hermes_state import SessionDB
from systems.driver import Ask, NotOffered, Peer


class HermesDriver(Peer):
    """hermes-agent's `SessionDB`."""

    name = "hermes-agent"

    def __init__(self, file: Path, synchronous: str) -> None:
        self._store = SessionDB(file)
        # No public setting says it; FULL is what SQLite takes by itself.
        self._store._conn.execute(f"PRAGMA synchronous = {synchronous}")
        self._ids: dict[str, dict[str, int]] = {}
        self._filled: set[str] = set()

    def add_session(self, one: Conversation) -> None:
        self._store.create_session(one.session_key, one.agent_id, parent_session_id=one.spawned_by)

    def append_many(self, key: str, messages: Sequence[Said]) -> None:
        if key in self._filled:
            raise NotOffered
        self._filled.add(key)
        self._store.replace_messages(key, [_message(said) for said in messages])

    def append(self, key: str, role: str, text: str) -> None:
        self._store.append_message(key, role, text)

    def search(self, ask: Ask) -> list[str]:
        if ask.session_key is not None or ask.tree_of is not None or ask.own_agent is not None:
            raise NotOffered
        hits = self._store.search_messages(
            ask.words + "*" * ask.prefix,
            source_filter=None if ask.agent is None else [ask.agent],
            role_filter=["user", "assistant"],
            limit=10,
            sort="newest" if ask.newest else None,
        )
        return [str(hit["id"]) for hit in hits]

    def around(self, key: str, message_id: str, limit: int) -> list[str]:
        if (row := self._rows(key).get(message_id)) is None:
            raise NotOffered
        page = self._store.get_messages_around(key, row, limit // 2)
        return [one["platform_message_id"] for one in page["window"]]

    def newest(self, key: str, limit: int) -> list[str]:
        if not (rows := self._rows(key)):
            raise NotOffered
        page = self._store.get_messages(key, limit=limit, offset=max(len(rows) - limit, 0))
        return [one["platform_message_id"] for one in page]

    def _rows(self, key: str) -> dict[str, int]:
        if key not in self._ids:
            self._ids[key] = {one["platform_message_id"]: one["id"] for one in self._store.get_messages(key)}
        return self._ids[key]

    def delete(self, key: str) -> None:
        self._filled.discard(key)
        self._store.delete_session(key)

    def close(self) -> None:
        self._store.close()


def _message(said: Said) -> dict[str, Any]:
    one: dict[str, Any] = {"role": said.role, "content": said.text, "timestamp": said.created_at.timestamp()}
    one["message_id"] = said.message_id
    if said.call is not None:
        function = {"name": said.call["name"], "arguments": said.call["arguments"]}
        one["tool_calls"] = [{"id": said.call["call_id"], "type": "function", "function": function}]
    if said.output is not None:
        one |= {"content": said.output["text"], "tool_call_id": said.output["call_id"], "tool_name": "read_file"}
    return one
