"""What is looked at in a store that was written to."""

import sqlite3
from pathlib import Path

from backscroll import (
    Backscroll,
    Requester,
)

KEY = "agent:main:main"


def contents(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table, FTS5's own included."""
    connection = sqlite3.connect(path)
    try:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            table: connection.execute(f'SELECT * FROM "{table}"').fetchall()
            for table in tables
            if table != "backscroll_message_index"
        }
    finally:
        connection.close()


def said(scroll: Backscroll, key: str = KEY) -> list[str]:
    page = scroll.history(key, requester=Requester(key), limit=200, include_tools=True)
    return [message.message_id for message in page.messages]


def found(scroll: Backscroll, word: str) -> list[str]:
    return sorted(hit.message_id for hit in scroll.search(word, requester=Requester.operator()).hits)
