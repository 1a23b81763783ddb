"""Reading along the active path: every read is a range scan over depths."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import sqlalchemy as sa

from backscroll.domain.errors import SessionNotFound
from backscroll.domain.model import SPOKEN, Message, Reset, Role
from backscroll.domain.paths import Stretch
from backscroll.infrastructure import mapping
from backscroll.infrastructure.fts import scope_tokens
from backscroll.infrastructure.rows import SESSIONS, TRANSCRIPTS
from backscroll.infrastructure.transaction import Transaction
from backscroll.infrastructure.types import json_text

# Literally the condition of the partial indexes: a bound parameter would hide it from SQLite's planner.
ON_PATH: sa.ColumnElement[bool] = sa.literal_column("backscroll_messages.active = 1")
RESET_ON_PATH: sa.ColumnElement[bool] = sa.literal_column("backscroll_resets.active = 1")

# As text, and read as plain tuples: making a statement or a row object takes longer than running the statement.
_READ = f"""SELECT {", ".join(f"m.{name}" for name in mapping.MESSAGE_COLUMNS)}, p.message_id
    FROM backscroll_messages AS m LEFT JOIN backscroll_messages AS p ON p.id = m.parent_pk
    WHERE m.transcript_pk = :transcript"""
_FIND = f"{_READ} AND m.message_id = :message_id"
# One JSON parameter: an IN list would meet SQLite's limit on the number of variables.
_KNOWN = f"{_READ} AND m.message_id IN (SELECT value FROM json_each(:message_ids))"
_MANY = 50
_GREATEST_ID = "SELECT max(message_id) FROM backscroll_messages WHERE transcript_pk = ?"
_SHOWN = "SELECT shown FROM backscroll_messages WHERE transcript_pk = ? AND active = 1 AND depth = ?"


_RESET = f"""SELECT {", ".join(f"r.{name}" for name in mapping.RESET_COLUMNS)}, a.message_id, k.message_id
    FROM backscroll_resets AS r LEFT JOIN backscroll_messages AS a ON a.id = r.after_pk
    LEFT JOIN backscroll_messages AS k ON k.id = r.first_kept_pk"""
RESET_WITH_KEY = f"{_RESET} WHERE r.id = ?"
_ON_LINE = "WHERE r.transcript_pk = ? AND r.active = 1"
_RESET_BEFORE = f"{_RESET} {_ON_LINE} AND r.depth < ? ORDER BY r.depth DESC, r.id DESC LIMIT 1"
_RESET_BEHIND = f"{_RESET} {_ON_LINE} AND r.depth >= ? ORDER BY r.depth, r.id LIMIT 1"


@cache
def _window(*, roles: frozenset[Role], kept: bool, newest_first: bool) -> str:
    """A range of the active path; with `kept`, only what was spoken up to the depth of that name."""
    conditions = ["m.active = 1 AND m.depth >= :low AND m.depth <= :high"]
    if kept:
        conditions.append(f"(m.depth > :kept OR {_one_of(SPOKEN)})")
    if len(roles) < len(Role):
        conditions.append(_one_of(roles))
    order = "m.depth DESC" if newest_first else "m.depth"
    return f"{_READ} AND {' AND '.join(conditions)} ORDER BY {order} LIMIT :limit OFFSET :offset"


def _one_of(roles: frozenset[Role]) -> str:
    listed = ", ".join(f"'{role}'" for role in sorted(roles))
    return f"m.role IN ({listed})"


_ALL = frozenset(Role)
_NO_TOOLS = _ALL - {Role.TOOL}


_PLACE = (
    sa.select(TRANSCRIPTS.c.id, TRANSCRIPTS.c.session_pk, SESSIONS.c.agent_pk, SESSIONS.c.incognito)
    .join(SESSIONS, SESSIONS.c.id == TRANSCRIPTS.c.session_pk)
    .where(TRANSCRIPTS.c.session_id == sa.bindparam("name"))
)


class Place(NamedTuple):
    """A transcript's key, and the scope tokens of its messages (None: they are kept out of the index)."""

    pk: int
    scope: str | None


class PathReads:
    """The reading half of the messages repository."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._places: dict[str, Place] = {}
        # Of messages on the active path, by session id and depth, met already in this unit of work.
        self._shown: dict[tuple[str, int], int] = {}

    def find(self, session_id: str, message_id: str) -> Message | None:
        """One message, on the active path or off it."""
        found = self._messages(_FIND, session_id, message_id=message_id)
        return found[0] if found else None

    def known(self, session_id: str, message_ids: Sequence[str]) -> dict[str, Message]:
        """Those of the messages that are stored."""
        place = self._place(session_id)
        if len(message_ids) >= _MANY:
            # Ids mostly grow: one look at the greatest then tells that all of these are new.
            greatest = self._transaction.connection.exec_driver_sql(_GREATEST_ID, (place.pk,)).scalar()
            if greatest is None or min(message_ids) > greatest:
                return {}
        found = self._messages(_KNOWN, session_id, message_ids=json_text(list(message_ids)))
        return {one.message_id: one for one in found}

    def interval_resets(self, session_id: str, depth: int) -> tuple[Reset | None, Reset | None]:
        """On the active path: the last reset before the message at `depth` and the first one behind it."""
        place = self._place(session_id).pk
        before = self._reset(_RESET_BEFORE, (place, depth), session_id)
        return before, self._reset(_RESET_BEHIND, (place, depth), session_id)

    def _reset(self, statement: str, params: tuple[int, ...], session_id: str) -> Reset | None:
        row = self._transaction.connection.exec_driver_sql(statement, params).first()
        return None if row is None else mapping.reset(row, session_id)

    def nth_spoken(self, session_id: str, stretch: Stretch, count: int) -> Message | None:
        """The `count`-th user or assistant message of the stretch from its end, or the first if there are fewer."""
        ends = (stretch.first, stretch.last)
        nth = self._range(session_id, stretch, *ends, 1, roles=SPOKEN, newest_first=True, offset=count - 1)
        first = nth or self._range(session_id, stretch, *ends, 1, roles=SPOKEN)
        return first[0] if first else None

    def older(
        self, session_id: str, stretch: Stretch, before: int, limit: int, *, tools: bool, offset: int = 0
    ) -> list[Message]:
        """The last `limit` messages below the depth `before`, after leaving out `offset` of them; oldest first."""
        roles = _ALL if tools else _NO_TOOLS
        high = min(stretch.last, before - 1)
        found = self._range(
            session_id, stretch, stretch.first, high, limit, roles=roles, newest_first=True, offset=offset
        )
        return found[::-1]

    def newer(self, session_id: str, stretch: Stretch, after: int, limit: int, *, tools: bool) -> list[Message]:
        """The first `limit` messages of the stretch above the depth `after`; oldest first."""
        low = max(stretch.first, after + 1)
        return self._range(session_id, stretch, low, stretch.last, limit, roles=_ALL if tools else _NO_TOOLS)

    def count(self, session_id: str, stretch: Stretch, *, tools: bool) -> int:
        """How many messages the stretch holds: a difference of counters, whatever its length."""
        low, high = max(stretch.kept_until, stretch.first - 1), stretch.last
        if not tools:
            low, high = self._shown_at(session_id, low), self._shown_at(session_id, high)
        return stretch.kept + max(high - low, 0)

    def _shown_at(self, session_id: str, depth: int) -> int:
        if depth <= 0:
            return 0
        place = self._place(session_id)
        if (session_id, depth) not in self._shown:
            found = self._transaction.connection.exec_driver_sql(_SHOWN, (place.pk, depth))
            self._shown[session_id, depth] = int(found.scalar_one())
        return self._shown[session_id, depth]

    def _range(
        self,
        session_id: str,
        stretch: Stretch,
        low: int,
        high: int,
        limit: int,
        *,
        roles: frozenset[Role],
        newest_first: bool = False,
        offset: int = 0,
    ) -> list[Message]:
        # One bound on each side: SQLite scans from the first that it is given, not from the tighter one.
        kept = stretch.kept_until >= low
        more = {"kept": stretch.kept_until} if kept else {}
        statement = _window(roles=roles, kept=kept, newest_first=newest_first)
        return self._messages(statement, session_id, low=low, high=high, limit=limit, offset=offset, **more)

    def _messages(self, statement: str, session_id: str, **params: object) -> list[Message]:
        params["transcript"] = self._place(session_id).pk
        rows = self._transaction.connection.exec_driver_sql(statement, params).all()
        return [mapping.message(row, session_id) for row in rows]

    def _place(self, session_id: str) -> Place:
        place = self._places.get(session_id)
        if place is None:
            row = self._transaction.connection.execute(_PLACE, {"name": session_id}).first()
            if row is None:
                raise SessionNotFound
            scope = None if row.incognito else scope_tokens(row.session_pk, row.agent_pk)
            place = self._places[session_id] = Place(row.id, scope)
        return place
