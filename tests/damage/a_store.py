"""What the stores to be damaged hold, and what is looked at in them."""

import sqlite3
from contextlib import closing
from pathlib import Path

from backscroll import Backscroll, Requester
from backscroll.infrastructure import fts

OPERATOR = Requester.operator()
ONE, OTHER, HIDDEN = "agent:main:one", "agent:main:other", "agent:main:hidden"
LENGTH = 80
INDEX = fts.INDEX
COUNTED = "edits = edits + 1"
"""Makes a plain write look like one that brought the index along, so that the triggers keep still."""
OWN = "id, transcript_pk, message_id, parent_pk, reset_pk, depth, shown, role, created_at, text, parts, metadata"
"""The columns that say what a message is; the others say where the path and the index stand."""
PK_OF_ONE = "(SELECT id FROM backscroll_sessions WHERE session_key = 'agent:main:one')"
MESSAGES_OF_ONE = f"(SELECT id FROM backscroll_transcripts WHERE session_pk = {PK_OF_ONE})"
INDEXED = 2 * (LENGTH - 5 + 1)


def raw(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as plain:
        for statement in statements:
            plain.execute(statement)
        plain.commit()


def rows(path: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as plain:
        return plain.execute(statement).fetchall()


def own(path: Path) -> list[tuple[object, ...]]:
    return rows(path, f"SELECT {OWN} FROM backscroll_messages ORDER BY id")


def found(scroll: Backscroll, query: str, key: str | None = None) -> set[str]:
    return {hit.message_id for hit in scroll.search(query, requester=OPERATOR, session_key=key, limit=25).hits}


def whole(scroll: Backscroll) -> bool:
    """Whether search finds what it should of both sessions, and nothing else."""
    return (
        all(found(scroll, f"place{place}", key) == {f"m{place}"} for key in (ONE, OTHER) for place in (0, 33, 74))
        and found(scroll, "place75") == found(scroll, "heliotrope") == found(scroll, "unindexed") == set()
        and all(len(found(scroll, "备份", key)) == 25 for key in (ONE, OTHER))
        and len(found(scroll, "reset after")) == 2
    )
