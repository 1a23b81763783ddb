"""The OpenAI Agents SDK's `SQLAlchemySession` as a driver.

It keeps each item as JSON in one table: no search, no branches, no visibility, no reads around an item. Appending,
the newest items and deletion are comparable. It is asynchronous: each call is one run of an event loop that stays.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from agents.extensions.memory import SQLAlchemySession
from corpus import Conversation, Said
from sqlalchemy import event
from sqlalchemy.ext.asyncio import create_async_engine
from systems.driver import NotOffered, Peer

T = TypeVar("T")


class OpenAIAgentsDriver(Peer):
    """`SQLAlchemySession` on aiosqlite, with the write-ahead log and durability that all others have."""

    name = "openai-agents"

    def __init__(self, file: Path, synchronous: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._engine = create_async_engine(f"sqlite+aiosqlite:///{file}")

        @event.listens_for(self._engine.sync_engine, "connect")
        def _durable(connection: Any, _: object) -> None:
            cursor = connection.cursor()
            for pragma in ("journal_mode = WAL", f"synchronous = {synchronous}", "foreign_keys = ON"):
                cursor.execute(f"PRAGMA {pragma}")
            cursor.close()

        # A host keeps the object of a session that is being talked in.
        self._session = lru_cache(64)(lambda key: SQLAlchemySession(key, engine=self._engine))
        self._run(SQLAlchemySession("tables", engine=self._engine, create_tables=True).get_items(1))

    def _run(self, job: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(job)

    def add_session(self, one: Conversation) -> None:
        """Nothing: the first item makes the session."""

    def append_many(self, key: str, messages: Sequence[Said]) -> None:
        self._run(self._session(key).add_items([item for said in messages for item in _items(said)]))

    def append(self, key: str, role: str, text: str) -> None:
        self._run(self._session(key).add_items([{"role": role, "content": text}]))

    def newest(self, key: str, limit: int) -> list[str]:
        items = self._run(self._session(key).get_items(limit))
        if not items:
            raise NotOffered
        return [item.get("id", "") for item in items]

    def delete(self, key: str) -> None:
        self._run(self._session(key).clear_session())

    def close(self) -> None:
        self._run(self._engine.dispose())
        self._loop.close()


def _items(said: Said) -> list[dict[str, Any]]:
    if said.output is not None:
        output = {"call_id": said.output["call_id"], "output": said.output["text"]}
        return [{"id": said.message_id, "type": "function_call_output", **output}]
    items: list[dict[str, Any]] = []
    if said.text:
        items.append({"id": said.message_id, "role": said.role, "content": said.text})
    if said.call is not None:
        call = {"name": said.call["name"], "arguments": said.call["arguments"], "call_id": said.call["call_id"]}
        items.append({"type": "function_call", **call})
    return items
